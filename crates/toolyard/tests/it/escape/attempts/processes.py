# --- Processes. `w.pid` is a process of the same user outside. `w.launcher` is process 1 of the pid namespace, which
# shares the launcher's memory; without a sandbox it is the process outside.

MEMORY = 64


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def vectors(address):
    here = ctypes.create_string_buffer(MEMORY)
    local = Vector(ctypes.addressof(here), MEMORY)
    return here, (ctypes.byref(local), 1, ctypes.byref(Vector(address, MEMORY)), 1, 0)


@attempt
def read_its_memory_file(w):
    with open(f"/proc/{w.pid}/mem", "rb", 0) as file:
        file.seek(w.address)
        found(w.marker.encode() in file.read(MEMORY), "other bytes")


@attempt
def trace_the_launcher(w):
    seize = 0x4206
    call("ptrace", seize, w.launcher, 0, 0)


@attempt
def read_the_launchers_memory(w):
    here, arguments = vectors(w.address)
    call("process_vm_readv", w.launcher, *arguments)
    found(w.marker.encode() in here.raw, "other bytes")


@attempt
def write_the_launchers_memory(w):
    _, arguments = vectors(w.writable)
    call("process_vm_writev", w.launcher, *arguments)


@attempt
def type_into_a_terminal(w):
    tiocsti = 0x5412
    reaches(errno.ENOTTY, lambda: fcntl.ioctl(0, tiocsti, b"x"))


table(
    read_through_its_root=lambda w: reads(f"/proc/{w.pid}/root{w.note}"),
    read_through_its_working_folder=lambda w: reads(f"/proc/{w.pid}/cwd/{w.name}/note"),
    read_through_its_descriptors=lambda w: reads(f"/proc/{w.pid}/fd/{w.fd}"),
    read_its_environment=lambda w: reads(f"/proc/{w.pid}/environ"),
    read_its_arguments=lambda w: reads(f"/proc/{w.pid}/cmdline"),
    read_through_the_root_of_process_1=lambda w: reads(f"/proc/{w.launcher}/root{w.note}"),
    read_the_environment_of_process_1=lambda w: reads(f"/proc/{w.launcher}/environ"),
    open_the_memory_of_process_1=lambda w: opens(f"/proc/{w.launcher}/mem", os.O_RDONLY),
    read_the_mounts_of_process_1=lambda w: reads(f"/proc/{w.launcher}/mounts"),
    read_the_network_of_process_1=lambda w: reads(f"/proc/{w.launcher}/net/dev"),
    signal_outside=lambda w: os.kill(w.pid, 0),
    signal_the_launcher=lambda w: os.kill(w.launcher, 0),
    signal_the_launcher_by_descriptor=lambda w: signal.pidfd_send_signal(os.pidfd_open(w.launcher), 0),
    take_a_descriptor_of_the_launcher=lambda w: os.close(call("pidfd_getfd", os.pidfd_open(w.launcher), w.fd, 0)),
    have_itself_traced=lambda w: call("ptrace", 0, 0, 0, 0),
    compare_with_the_launcher=lambda w: call("kcmp", os.getpid(), w.launcher, 1, 0, 0),
    change_limits_outside=lambda w: resource.prlimit(w.pid, resource.RLIMIT_CORE, (0, 0)),
    change_limits_of_process_1=lambda w: resource.prlimit(w.launcher, resource.RLIMIT_CORE, (0, 0)),
    change_priority_outside=lambda w: os.setpriority(os.PRIO_PROCESS, w.pid, 19),
    open_the_terminal=lambda w: reaches(errno.ENXIO, lambda: opens("/dev/tty")),
    find_the_owners_environment=lambda w: found(w.marker in os.environ.values(), "not there"),
    find_an_inherited_descriptor=lambda w: found(INHERITED, "none"),
)


# --- Memory and queues shared between processes.


@attempt
def shared_memory_by_id(w):
    read_only = 0o10000
    call("shmat", w.shm_id, 0, read_only)


@attempt
def hold(w):
    """What another tool has open while the attempts are made, as far as it can."""
    try:
        with open(f"/tmp/{w.held}", "w") as file:
            file.write("x")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0{w.held}")
        listener.listen()
    except OSError:
        pass
    creates("data/held")
    signal.alarm(0)
    while os.path.exists("data/held"):
        time.sleep(0.02)


table(
    shared_memory_by_key=lambda w: call("shmget", w.shm_key, 0, 0),
    semaphore_by_id=lambda w: call("semop", w.sem_id, struct.pack("HhH", 0, 1, 0), 1),
    message_queue_by_id=lambda w: call("msgrcv", w.msg_id, ctypes.create_string_buffer(MEMORY), 8, 0, 0),
    posix_queue=lambda w: call("mq_open", w.queue.encode(), os.O_RDONLY, 0, 0),
    remove_a_posix_queue=lambda w: call("mq_unlink", f"{w.queue}-2".encode()),
    posix_shared_memory=lambda w: reads(f"/dev/shm/{w.marker}"),
    file_of_another_tool=lambda w: reads(f"/tmp/{w.held}"),
    socket_of_another_tool=lambda w: socket.socket(socket.AF_UNIX).connect(f"\0{w.held}"),
)


