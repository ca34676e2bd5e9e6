# Attempts to escape the sandbox, and what makes them. The files of this folder are joined into one module, the code
# of the attacking tools; the test runs the same module without a sandbox as the control.
#
# An attempt that returns has escaped. One that is stopped raises: OSError with the kernel's error number, or Stopped
# with a word where nothing is refused but nothing is found either. Everything else is a mistake of the attempt.
import ctypes, errno, fcntl, json, os, resource, signal, socket, stat, struct, subprocess, sys, time
from types import SimpleNamespace

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ATTEMPTS = {}
AT_FDCWD = -100
# Descriptors that this process did not open.
INHERITED = [number for number in range(3, 256) if libc.fcntl(number, fcntl.F_GETFD) >= 0]
# x86_64 and aarch64; newer system calls have the same number on both.
NUMBERS = {
    "add_key": (248, 217), "bpf": (321, 280), "capset": (126, 91), "clone": (56, 220), "clone3": (435, 435),
    "fanotify_init": (300, 262), "fsopen": (430, 430), "inotify_add_watch": (254, 27), "inotify_init1": (294, 26),
    "io_uring_setup": (425, 425), "kcmp": (312, 272), "linkat": (265, 37), "modify_ldt": (154, None),
    "mount": (165, 40), "mq_open": (240, 180), "mq_unlink": (241, 181), "msgrcv": (70, 188),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "prctl": (157, 167),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "reboot": (169, 142),
    "renameat2": (316, 276), "semop": (65, 193), "setns": (308, 268), "settimeofday": (164, 170),
    "shmat": (30, 196), "shmget": (29, 194), "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39),
    "unshare": (272, 97), "userfaultfd": (323, 282), "x32_getpid": (0x40000027, None),
}  # fmt: skip


class Stopped(Exception):
    """Nothing was refused, and nothing was gained; the word says why."""


class Lacking(Exception):
    """This machine has nothing to attack; the text says what is lacking."""


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def table(**attempts):
    """Attempts of one line."""
    ATTEMPTS.update(attempts)


def number(name):
    return needed(NUMBERS[name][os.uname().machine == "aarch64"], "it needs another processor")


def call(name, *arguments):
    """A system call by its number."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = libc.syscall(ctypes.c_long(number(name)), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def reaches(answer, function):
    """For calls that must not take effect: their arguments are invalid, and `answer` is the error number of the
    code behind the check of rights. Who gets it could have made the call."""
    try:
        function()
    except OSError as error:
        if error.errno != answer:
            raise


def reads(path):
    with open(path, "rb") as file:
        return found(file.read(64), "empty")


def opens(path, flags=os.O_WRONLY):
    """Nothing is written."""
    os.close(os.open(path, flags))


def creates(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def found(what, otherwise):
    if not what:
        raise Stopped(otherwise)
    return what


def needed(what, lack):
    if what is None:
        raise Lacking(lack)
    return what


def fresh(w):
    """A path in the folder that the tool may write, another one in each run."""
    return f"data/{w.name}-{w.run}"


def own_file(w):
    creates(fresh(w))
    return fresh(w)


def outcome(name, world):
    w = SimpleNamespace(**world, name=name, own=f"{world['outside']}/{name}", note=f"{world['outside']}/{name}/note")
    try:
        ATTEMPTS[name](w)
        return "possible"
    except OSError as error:
        return errno.errorcode.get(error.errno, f"broken: {error!r}")
    except Stopped as stopped:
        return str(stopped)
    except Lacking as lacking:
        return f"lacking: {lacking}"
    except BaseException as error:
        return f"broken: {error!r}"


def in_a_process(name, world):
    """Each attempt has a process of its own, so that it cannot disturb the others."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.write(into, outcome(name, world).encode())
        os._exit(0)
    os.close(into)
    with open(out) as answer:
        text = answer.read()
    status = os.waitpid(child, 0)[1]
    return text or f"killed ({signal.Signals(os.WTERMSIG(status)).name})"


def run(attempts, world):
    return {name: in_a_process(name, world) for name in attempts}


def main():
    print(json.dumps(run(**json.loads(sys.argv[1]))))


