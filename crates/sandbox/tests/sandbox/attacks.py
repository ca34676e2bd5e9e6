"""Tries to escape; prints `name=ok` or `name=ERRNO` for each attack. Parameters come from the environment."""

import ctypes, errno, os, platform, signal, socket

libc = ctypes.CDLL(None, use_errno=True)
outer = os.environ["OUTER"]
arm = platform.machine() == "aarch64"
NUMBERS = {"bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217), "perf": (298, 241),
           "process_vm_readv": (310, 270), "userfaultfd": (323, 282), "kcmp": (312, 272)}
SAME = {"io_uring": 425, "open_tree": 428, "fsopen": 430, "pidfd_getfd": 438, "clone3": 435}


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def number(name):
    return SAME.get(name) or NUMBERS[name][arm]


def raw(name, *arguments):
    call(libc.syscall(ctypes.c_long(number(name)), *map(ctypes.c_long, arguments)))


def read(path):
    with open(path, "rb") as file:
        if not file.read(1) and not path.startswith("/proc"):
            raise OSError(errno.ENODATA, "")


def write(path):
    with open(path, "w") as file:
        file.write("x")


def connect(family, kind, address, protocol=0):
    with socket.socket(family, kind, protocol) as s:
        s.settimeout(5)
        s.connect(address)
        s.send(b"x")


def link(source, target):
    os.link(source, target)
    read(target)


def through_link(target):
    path = outer + "/yard/data/way-out"
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(target, path)
    read(path)


def rename_out():
    os.rename(outer + "/yard/data/old.txt", outer + "/home/moved.txt")


def environments():
    """Reads the environment of any other visible process."""
    mine = {int(os.readlink("/proc/self"))}  # as numbered in this /proc
    for pid in range(1, 32768):
        if pid not in mine:
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    file.read()
                return
            except OSError:
                pass
    raise PermissionError(errno.EACCES, "")


def inherited():
    for fd in range(3, 256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        if not os.readlink(f"/proc/self/fd/{fd}").startswith("/proc/"):
            return
    raise OSError(errno.EBADF, "")


def signal_outside():
    os.kill(int(os.environ["OUTSIDE"]), 0)


def become_root():
    os.setuid(0 if os.getuid() else 12345)


port, port6 = int(os.environ["PORT"]), ("::1", 9)
ATTACKS = {
    "read shadow": lambda: read("/etc/shadow"),
    "read the machine's passwords": lambda: read("/etc/passwd-"),
    "read home": lambda: read(outer + "/home/diary.txt"),
    "read the state": lambda: read(outer + "/yard/.toolyard/secret.txt"),
    "read the state through a link": lambda: through_link(outer + "/yard/.toolyard/secret.txt"),
    "read the state by a way up": lambda: read(outer + "/yard/data/../.toolyard/secret.txt"),
    "read home through a link": lambda: through_link("../../home/diary.txt"),
    "read through the root of process 1": lambda: read("/proc/1/root" + outer + "/home/diary.txt"),
    "read through the working folder of process 1": lambda: read("/proc/1/cwd/.toolyard/secret.txt"),
    "list home": lambda: os.listdir(outer + "/home"),
    "list the owner's home": lambda: os.listdir("/root"),
    "link to home": lambda: link(outer + "/home/diary.txt", outer + "/yard/data/hard"),
    "link to the state": lambda: link(outer + "/yard/.toolyard/secret.txt", outer + "/yard/data/hard"),
    "move out": rename_out,
    "write into the tool": lambda: write(outer + "/yard/tools/tool.txt"),
    "write a new tool": lambda: write(outer + "/yard/tools/new.txt"),
    "write home": lambda: write(outer + "/home/new.txt"),
    "write the system": lambda: write("/usr/sandbox-test"),
    "write the configuration": lambda: write("/etc/sandbox-test"),
    "write the root": lambda: write("/sandbox-test"),
    "change the mode of a tool": lambda: os.truncate(outer + "/yard/tools/tool.txt", 0),
    "remove a tool": lambda: os.unlink(outer + "/yard/tools/tool.txt"),
    "read a disk": lambda: read("/dev/vda"),
    "read the memory": lambda: read("/dev/mem"),
    "read the kernel's core": lambda: read("/proc/kcore"),
    "write a kernel setting": lambda: write("/proc/sys/kernel/core_pattern"),
    "press a magic key": lambda: write("/proc/sysrq-trigger"),
    "make a device": lambda: os.mknod(outer + "/yard/data/disk", 0o60600, os.makedev(254, 0)),
    "environment of others": environments,
    "inherited descriptors": inherited,
    "signal outside": signal_outside,
    "signal process 1": lambda: os.kill(1, signal.SIGKILL) or os.kill(1, 0) or os.stat("/proc/1/fd/3"),
    "ptrace outside": lambda: call(libc.ptrace(16, int(os.environ["OUTSIDE"]), 0, 0)),
    "ptrace process 1": lambda: call(libc.ptrace(16, 1, 0, 0)),
    "tcp": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
    "tcp6": lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, port6),
    "dns": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("9.9.9.9", 53)),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "ping": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "vsock": lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16),
    "unix socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, outer + "/home/socket"),
    "abstract unix socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + outer),
    "unshare user": lambda: call(libc.unshare(0x10000000)),
    "unshare mount": lambda: call(libc.unshare(0x20000)),
    "unshare net": lambda: call(libc.unshare(0x40000000)),
    "setns": lambda: call(libc.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0)),
    "mount": lambda: call(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "bind": lambda: call(libc.mount(b"/usr", outer.encode() + b"/yard/data", None, 4096, None)),
    "umount": lambda: call(libc.umount2(outer.encode() + b"/yard/.toolyard", 2)),
    "remount": lambda: call(libc.mount(None, b"/usr", None, 32 | 4096, None)),
    "chroot": lambda: os.chroot("/usr"),
    "pivot_root": lambda: raw("open_tree", -100, 0, 1),
    "fsopen": lambda: raw("fsopen", 0, 0),
    "bpf": lambda: raw("bpf", 0, 0, 0),
    "keyctl": lambda: raw("keyctl", 0, -3, 0),
    "add_key": lambda: raw("add_key", 0, 0, 0, 0, 0),
    "perf": lambda: raw("perf", 0, 0, -1, -1, 0),
    "io_uring": lambda: raw("io_uring", 1, 0),
    "userfaultfd": lambda: raw("userfaultfd", 1),
    "process_vm_readv": lambda: raw("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0),
    "kcmp": lambda: raw("kcmp", os.getpid(), os.getpid(), 0, 0, 0),
    "clone3": lambda: raw("clone3", 0, 0),
    "personality": lambda: call(libc.personality(0x0040000)),
    "hostname": lambda: socket.sethostname("x"),
    "clock": lambda: __import__("time").clock_settime(0, 1),
    "another user": become_root,
    "own capabilities": lambda: os.nice(-5),
    "raise a limit": lambda: __import__("resource").setrlimit(4, (1, 1)),
}
for name, attack in ATTACKS.items():
    try:
        attack()
        print(f"{name}=ok")
    except OSError as error:
        print(f"{name}={errno.errorcode.get(error.errno, error)}")
    except ValueError:
        print(f"{name}=refused")
