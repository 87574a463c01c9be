"""One method an opcode, named as the opcode, in families; an opcode without a method is a graph break."""

from .calls import CallOpcodes
from .containers import ContainerOpcodes
from .control import ControlOpcodes
from .exceptions import ExceptionOpcodes
from .functions import FunctionOpcodes
from .names import NameOpcodes
from .operators import OperatorOpcodes
from .patterns import PatternOpcodes


class Opcodes(
    NameOpcodes, OperatorOpcodes, ContainerOpcodes, ControlOpcodes, CallOpcodes, FunctionOpcodes, ExceptionOpcodes, PatternOpcodes
):
    """Every family."""
