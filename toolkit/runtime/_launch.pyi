from typing import Any

class Launcher:
    name: str
    pointers: int
    sizes: int
    def __call__(self, *args: Any) -> None: ...

def launcher(address: int, pointers: int, sizes: int, name: str, owner: Any = None) -> Launcher: ...

class Fire:
    name: str
    kinds: bytes
    def __call__(self, blocks: int, stream: int, *args: Any) -> int: ...

def fire(cu_launch: int, function: int, kinds: bytes, threads: int, shared: int, name: str, owner: Any = None) -> Fire: ...
