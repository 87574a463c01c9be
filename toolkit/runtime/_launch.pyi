from typing import Any

class Launcher:
    name: str
    pointers: int
    sizes: int
    def __call__(self, *args: Any) -> None: ...

def launcher(address: int, pointers: int, sizes: int, name: str, owner: Any = None) -> Launcher: ...
