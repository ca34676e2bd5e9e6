# One attempt to escape the sandbox, named by "how"; returns whether it worked.
# The first member of the result says so; the others help to debug a failure.
import ctypes, errno, glob, os, socket, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)
ATTEMPTS = {}


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def reads(path):
    with open(path, "rb") as file:
        return len(file.read(64)) > 0


def syscall(number, *arguments):
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(number, *arguments)
    return result, errno.errorcode.get(ctypes.get_errno(), "0")


@attempt
def read_outside(outside, **_):
    return reads(f"{outside}/note")


@attempt
def write_outside(outside, **_):
    with open(f"{outside}/written", "w") as file:
        file.write("x")
    return True


@attempt
def write_the_yard(**_):
    with open("written", "w") as file:
        file.write("x")
    return True


@attempt
def list_the_state_folder(**_):
    return len(os.listdir(".toolyard")) > 0


@attempt
def read_the_state_folder(**_):
    for folder, _, files in os.walk(".toolyard"):
        for name in files:
            try:
                if reads(os.path.join(folder, name)):
                    return True
            except OSError:
                pass
    return False


@attempt
def read_the_home_folder(home, **_):
    return reads(f"{home}/private")


@attempt
def read_shadow(**_):
    return reads("/etc/shadow")


@attempt
def other_environments(marker, **_):
    found = 0
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            found += marker.encode() in open(path, "rb").read() and path.split("/")[2] != str(os.getpid())
        except OSError:
            pass
    return found > 0


@attempt
def peek_through_proc(outside, pid, **_):
    for root in (f"/proc/{pid}/root", "/proc/1/root", f"/proc/{pid}/cwd/.."):
        try:
            if reads(f"{root}{outside}/note"):
                return True
        except OSError:
            pass
    return False


@attempt
def change_kernel_settings(**_):
    for path in ("/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/sys/power/state"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            return True
        except OSError:
            pass
    return False


@attempt
def trace_another_process(pid, **_):
    return any(libc.ptrace(16, target, 0, 0) == 0 for target in (pid, 1, os.getppid() or 1))


@attempt
def signal_another_process(pid, **_):
    try:
        os.kill(pid, 0)
        return True
    except OSError:
        return False


@attempt
def tcp(port, **_):
    socket.create_connection(("127.0.0.1", port), 2).close()
    return True


@attempt
def udp(port, **_):
    # Sending may appear to work; the test checks what arrives.
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", port))
    return False


@attempt
def dns(port, **_):
    return len(socket.getaddrinfo("exfiltrated.example", 53)) > 0


@attempt
def raw_sockets(**_):
    for family, kind, protocol in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 768)):
        try:
            socket.socket(family, kind, protocol)
            return True
        except OSError:
            pass
    return False


@attempt
def unix_socket_by_path(outside, **_):
    socket.socket(socket.AF_UNIX).connect(f"{outside}/socket")
    return True


@attempt
def unix_socket_by_abstract_name(marker, **_):
    socket.socket(socket.AF_UNIX).connect("\0" + marker)
    return True


@attempt
def new_namespaces(**_):
    return any(libc.unshare(flag) == 0 for flag in (0x10000000, 0x00020000, 0x40000000))


@attempt
def mount(**_):
    return libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0 or libc.umount2(b"/proc", 2) == 0


@attempt
def bpf(**_):
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    result, error = syscall(number, 0, 0, 0)
    return result >= 0 or error not in ("EPERM", "ENOSYS", "EACCES")


@attempt
def keyrings(**_):
    number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
    return syscall(number, 0, -3, 1)[0] >= 0


@attempt
def fork_bomb(**_):
    made = 0
    while made < 5000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
    return True


@attempt
def memory_bomb(**_):
    kept = []
    for _ in range(40):
        kept.append(bytearray(os.urandom(1 << 20)) * 16)
    return True


@attempt
def fill_the_disk(**_):
    for folder in ("/tmp", "/dev/shm", "/var/tmp", "."):
        try:
            with open(f"{folder}/filler", "wb") as file:
                for _ in range(64):
                    file.write(b"x" * (1 << 20))
            return True
        except OSError:
            pass
    return False


@attempt
def through_a_symlink(outside, **_):
    link = f"data/link-{os.getpid()}"
    os.symlink(f"{outside}/note", link)
    return reads(link)


@attempt
def through_a_hard_link(outside, **_):
    link = f"data/hard-{os.getpid()}"
    os.link(f"{outside}/note", link)
    return reads(link)


@attempt
def leaked_descriptors(**_):
    return any(os.path.exists(f"/proc/self/fd/{number}") and number > 2 for number in open_descriptors())


def open_descriptors():
    for number in range(3, 1024):
        try:
            os.fstat(number)
            yield number
        except OSError:
            pass


@attempt
def setuid_programs(**_):
    if os.getuid() == 0:
        # Root has nothing to gain, so the check is that no program can gain privileges.
        return "NoNewPrivs:\t1" not in open("/proc/self/status").read()
    return subprocess.run(["./id-with-setuid", "-u"], capture_output=True, text=True).stdout.strip() == "0"


def run(how, **world):
    try:
        return {"escaped": bool(ATTEMPTS[how](**world)), "why": ""}
    except OSError as error:
        return {"escaped": False, "why": str(error)}
    except MemoryError:
        return {"escaped": False, "why": "no memory"}
