"""What a frame is calling, for every form of call that a request meets. Each snippet runs, and looks at itself."""

import argparse
import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import ClassVar

import pytest
from midwatch.watch.callee import callee
from midwatch.watch.stacks import line_at


class Spy:
    """Whatever is done with it looks back at the frame that does it."""

    seen: ClassVar[list[tuple[str, int]]] = []

    def look(self):
        frame = sys._getframe(2)
        assert line_at(frame.f_code, frame.f_lasti) == frame.f_lineno
        Spy.seen.append((callee(frame.f_code, frame.f_lasti), frame.f_lineno))
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **kwargs):
        return self.look()

    def __enter__(self):
        return self.look()

    def __exit__(self, *exc):
        self.look()
        return True

    def __bool__(self):
        self.look()
        return True

    def __iter__(self):
        self.look()
        return iter((1, 2))

    def __getitem__(self, key):
        return self.look()

    def __setitem__(self, key, value):
        self.look()

    def __delitem__(self, key):
        self.look()

    def __contains__(self, key):
        self.look()
        return True

    def __add__(self, other):
        return self.look()

    def __iadd__(self, other):
        return self.look()

    def __matmul__(self, other):
        return self.look()

    def __truediv__(self, other):
        return self.look()

    def __neg__(self):
        return self.look()

    def __gt__(self, other):
        return self.look()

    def __eq__(self, other):
        return self.look()

    def __format__(self, spec):
        self.look()
        return "x"

    __hash__ = None

    @property
    def prop(self):
        return self.look()


SNIPPETS = [
    ("loss.item()", ["item"]),
    ("loss.cpu().numpy()", ["cpu", "numpy"]),
    ("lock.acquire()", ["acquire"]),
    ("lock.acquire(timeout=3)", ["acquire"]),
    ("with lock: pass", ["__enter__", "__exit__"]),
    ("with a.b.lock as held:\n    held.work(1)", ["__enter__", "work", "__exit__"]),
    ("with a, b: pass", ["__enter__", "__enter__", "__exit__", "__exit__"]),
    ("with a:\n    raise ValueError", ["__enter__", "__exit__"]),
    ("time.sleep(0.1)", ["sleep"]),
    ("f.write(x)", ["write"]),
    ("f(g(x))", ["g", "f"]),
    ("f(a.g(x, y), h(z))", ["g", "h", "f"]),
    ("a.f(b.g(c.h()))", ["h", "g", "f"]),
    ("f(x if a.flag else y)", ["__bool__", "f"]),
    ("f(g(1) if a else h(2))", ["__bool__", "g", "f"]),
    ("f(a or b)", ["__bool__", "f"]),
    ("f(a and b.go())", ["__bool__", "go", "f"]),
    ("f(0 or b, (0 and c) or d.run(), e=1)", ["run", "f"]),
    ("f(*args, **kw)", ["f"]),
    ("a.f(*(1, 2), z=3)", ["f"]),
    ("a.f(1, k=g(2), **kw)", ["g", "f"]),
    ("f([g(i) for i in (1, 2)])", ["g", "g", "f"]),
    ("f({i: g(i) for i in (1,)}, h())", ["g", "h", "f"]),
    ("f(g(i) for i in (1,))", ["f"]),
    ("[x.item() for _ in (1,)]", ["item"]),
    ("f(lambda: 0)", ["f"]),
    ("f(f'{a}', g())", ["__format__", "g", "f"]),
    ("f(1 < 2 < 3, g())", ["g", "f"]),
    ("f(a[1:2], b[0])", ["__getitem__", "__getitem__", "f"]),
    ("table[0](1)", ["__getitem__", ""]),
    ("f()()", ["f", ""]),
    ("a.prop", ["prop"]),
    ("a.prop.cpu()", ["prop", "cpu"]),
    ("if a: pass", ["__bool__"]),
    ("if not a: pass", ["__bool__"]),
    ("while a: break", ["__bool__"]),
    ("a + 1", ["__add__"]),
    ("a += 1", ["__iadd__"]),
    ("a @ b", ["__matmul__"]),
    ("a / b", ["__truediv__"]),
    ("-a", ["__neg__"]),
    ("a > 0", ["__gt__"]),
    ("a == 0", ["__eq__"]),
    ("a[0] = 1", ["__setitem__"]),
    ("del a[0]", ["__delitem__"]),
    ("1 in a", ["__contains__"]),
    ("for _ in a: pass", ["__iter__"]),
    ("p, q = a", ["__iter__"]),
    ("[*a]", ["__iter__"]),
    ("f'{a}'", ["__format__"]),
    ("f'{a:>3}'", ["__format__"]),
    ("try:\n    f()\nfinally:\n    g()", ["f", "g"]),
    ("try:\n    f()\n    raise ValueError\nexcept ValueError:\n    g(h())", ["f", "h", "g"]),
    ("f(\n  g(\n    1),\n  h()\n)", ["g", "h", "f"]),
    ("(a\n  .b()\n  .c(1)\n)", ["b", "c"]),
    ("f((yes := g()), 1)", ["g", "f"]),
    ("def inner():\n    return f(x)\ninner()", ["f"]),
    ("f(None, None, None)", ["f"]),
]  # fmt: skip


def run(body: str, *, local: bool):
    """Run ``body`` with all its names bound to one spy: as locals of a function, or as globals of a module."""
    names = [*"abcdefghxyz", "loss", "lock", "time", "table", "args", "kw"]
    bound = ", ".join(names[:-2])
    Spy.seen = []
    spy = Spy()
    namespace = dict.fromkeys(names, spy) | {"args": (1, 2), "kw": {"p": 1}}
    parameters = f"{bound}, args, kw" if local else ""
    source = f"def snippet({parameters}):\n{textwrap.indent(body, '    ')}\n"
    if not local:
        source = source.replace("a += 1", "local = a; local += 1")
    exec(compile(source, "snippet.py", "exec"), namespace)
    arguments = {n: namespace[n] for n in names} if local else {}
    namespace["snippet"](**arguments)
    return Spy.seen


@pytest.mark.parametrize("local", [True, False], ids=["locals", "globals"])
@pytest.mark.parametrize(("body", "expected"), SNIPPETS, ids=[s[0] for s in SNIPPETS])
def test_callee_by_name(body, expected, local):
    assert [name for name, _ in run(body, local=local)] == expected


def test_the_line_is_the_one_that_runs_inside_a_call_over_several_lines():
    assert run("f(\n  g(\n    1),\n  h()\n)", local=True) == [("g", 3), ("h", 5), ("f", 2)]


def test_calls_behind_many_names_and_constants():
    """Arguments above 255 need EXTENDED_ARG in front of the instruction."""
    filler = "\n".join(f"name{i} = {i + 1000}" for i in range(400))
    assert run(f"{filler}\nf(name399, name398 if name397 else g(), h.go(name300))", local=True) == [
        ("go", 402),
        ("f", 402),
    ]


def test_closures_and_class_bodies():
    body = (
        "def outer(fn):\n    def inner():\n        return fn(1)\n    return inner()\nouter(f)\nclass C:\n    v = f(2)"
    )
    assert [name for name, _ in run(body, local=True)] == ["fn", "f"]


def test_super_and_await():
    body = textwrap.dedent(
        """
        class Base:
            def go(self): return f(1)
        class Sub(Base):
            def go(self):
                return f(super().go(), 2)
        Sub().go()
        async def work(): return f(3)
        async def main(): return g(await work(), h.go())
        try: main().send(None)
        except StopIteration: pass
        """
    )
    assert [name for name, _ in run(body, local=False)] == ["f", "f", "f", "go", "g"]


def test_a_thread_blocked_in_c_code():
    lock = threading.Lock()
    ready = threading.Event()

    def wait_with():
        ready.set()
        with lock:
            pass

    def wait_acquire():
        ready.set()
        lock.acquire(timeout=30)
        lock.release()

    for function, expected in ((wait_with, "__enter__"), (wait_acquire, "acquire")):
        ready.clear()
        with lock:
            thread = threading.Thread(target=function)
            thread.start()
            ready.wait()
            deadline = threading.Event()
            for _ in range(500):
                frame = sys._current_frames()[thread.ident]
                if frame.f_code is function.__code__ and callee(frame.f_code, frame.f_lasti) == expected:
                    break
                deadline.wait(0.01)
            assert callee(frame.f_code, frame.f_lasti) == expected
            del frame
        thread.join()


def test_every_instruction_of_real_code_has_an_answer():
    """No instruction of a large module makes the reader raise or run away."""
    codes = [compile(Path(argparse.__file__).read_text(), "argparse.py", "exec")]
    looked = 0
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for lasti in range(0, len(code.co_code), 2):
            assert isinstance(callee(code, lasti), str)
            looked += 1
    assert looked > 5_000
