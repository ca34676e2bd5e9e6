# Runs a program as on a machine that refuses some of what the sandbox uses: by a seccomp filter, as container runtimes
# set one. `restricted.py WHAT[,WHAT] PROGRAM ARGUMENT…`
import ctypes, os, platform, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
EPERM, ENOSYS = 1, 38
NEW = 0x7E020080  # All namespaces.
ARM = platform.machine() == "aarch64"
LOAD, EQUAL, ANY, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x50000


def instruction(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)


def refuse(number, errno):
    return instruction(EQUAL, 0, 1, number) + instruction(RETURN, 0, 0, ERRNO | errno)


def refuse_flags(number, errno):
    """If the first argument has one of the flags of namespaces."""
    return (
        instruction(EQUAL, 0, 4, number)
        + instruction(LOAD, 0, 0, 16)
        + instruction(ANY, 0, 1, NEW)
        + instruction(RETURN, 0, 0, ERRNO | errno)
        + instruction(RETURN, 0, 0, ALLOW)
    )


unshare, clone, setns, mount = (97, 220, 268, 40) if ARM else (272, 56, 308, 165)
RULES = {
    "namespaces": refuse(setns, EPERM)
    + refuse(mount, EPERM)
    + refuse(435, ENOSYS)
    + refuse_flags(unshare, EPERM)
    + refuse_flags(clone, EPERM),
    "landlock": refuse(444, ENOSYS) + refuse(445, ENOSYS) + refuse(446, ENOSYS),
}


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


code = instruction(LOAD, 0, 0, 0) + b"".join(RULES[what] for what in sys.argv[1].split(","))
code += instruction(RETURN, 0, 0, ALLOW)
program = Program(len(code) // 8, code)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[2], sys.argv[2:])
