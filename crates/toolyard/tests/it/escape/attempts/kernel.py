# --- Namespaces and mounts.

NEW_USER, NEW_MOUNT, NEW_NET, NEW_TIME = 0x10000000, 0x00020000, 0x40000000, 0x80
BIND, DETACH = 4096, 2


def reap(child):
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@attempt
def clone3_with_a_namespace(w):
    arguments = struct.pack("8Q", NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    reap(call("clone3", arguments, len(arguments)))


@attempt
def mount_a_file_system(w):
    call("mount", b"none", b"data", b"tmpfs", 0, 0)
    call("umount2", b"data", DETACH)


@attempt
def bind_the_root_folder(w):
    call("mount", b"/", b"data", 0, BIND, 0)
    try:
        reads(f"data{w.note}")
    finally:
        call("umount2", b"data", DETACH)


@attempt
def copy_a_mount(w):
    clone = 1
    os.close(call("open_tree", AT_FDCWD, b"/", clone))


table(
    new_user_namespace=lambda w: call("unshare", NEW_USER),
    new_mount_namespace=lambda w: call("unshare", NEW_MOUNT),
    new_time_namespace=lambda w: call("unshare", NEW_TIME),
    clone_with_a_namespace=lambda w: reap(call("clone", NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)),
    join_a_namespace=lambda w: call("setns", os.pidfd_open(os.getpid()), NEW_NET),
    unmount=lambda w: reaches(errno.EINVAL, lambda: call("umount2", b"data", 0)),
    open_a_file_system=lambda w: os.close(call("fsopen", b"tmpfs", 0)),
    change_the_root=lambda w: os.chroot("data"),
    exchange_the_root=lambda w: reaches(errno.EBUSY, lambda: call("pivot_root", b".", b".")),
)


# --- Parts of the kernel that exploits use, and rights over the machine.


@attempt
def bpf(w):
    create_map, array = 0, 2
    attributes = struct.pack("4I", array, 4, 4, 1) + bytes(56)
    os.close(call("bpf", create_map, attributes, len(attributes)))


@attempt
def performance_counters(w):
    software, size, only_user = 1, 112, 1 << 5 | 1 << 6
    attributes = struct.pack("IIQQQQQ", software, size, 0, 0, 0, 0, only_user)
    os.close(call("perf_event_open", attributes.ljust(size, b"\0"), 0, -1, -1, 0))


@attempt
def page_faults(w):
    only_user = 1
    os.close(call("userfaultfd", only_user))


@attempt
def add_a_key(w):
    process_keyring = -2
    call("add_key", b"user", b"escape", b"x", 1, process_keyring)


@attempt
def watch_the_file_system(w):
    content = 4
    os.close(call("fanotify_init", content, 0))


@attempt
def read_the_kernels_log(w):
    size_of_the_buffer = 10
    call("syslog", size_of_the_buffer, 0, 0)


@attempt
def set_the_clock(w):
    no_time_zone = struct.pack("ii", 100_000, 0)
    reaches(errno.EINVAL, lambda: call("settimeofday", 0, no_time_zone))


@attempt
def call_as_a_32_bit_program(w):
    import mmap

    number("x32_getpid")
    # mov eax, 20 (getpid); int 0x80; ret
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    found(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))() > 0, "no pid")


@attempt
def call_as_an_x32_program(w):
    # A kernel without x32 says so itself.
    reaches(errno.ENOSYS, lambda: call("x32_getpid"))


table(
    io_uring=lambda w: os.close(call("io_uring_setup", 1, ctypes.create_string_buffer(120))),
    read_the_kernels_log_device=lambda w: os.read(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), 8192),
    reboot=lambda w: reaches(errno.EINVAL, lambda: call("reboot", 0, 0, 0, 0)),
    add_swap=lambda w: reaches(errno.ENOENT, lambda: call("swapon", b"/nowhere", 0)),
    set_the_host_name=lambda w: socket.sethostname(socket.gethostname()),
    switch_off_randomisation=lambda w: call("personality", 0x0040000),
    change_the_descriptor_table=lambda w: call("modify_ldt", 0, ctypes.create_string_buffer(16), 16),
)


