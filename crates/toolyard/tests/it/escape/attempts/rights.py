# --- Rights. `w.other` is another user: of root's tools an ordinary one, of an ordinary user's tools root.

CAP_SYS_ADMIN = 21
NOT_ROOT = "only root can create files of another user"


@attempt
def run_a_setuid_program(w):
    ran = subprocess.run([f"./{needed(w.of_another, NOT_ROOT)[0]}", "-u"], capture_output=True, text=True, check=True)
    found(ran.stdout.strip() == str(w.other), "the same user")


@attempt
def take_a_capability(w):
    header, sets = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[1 << CAP_SYS_ADMIN] * 2, 0, 0, 0, 0)
    call("capset", header, sets)


@attempt
def unlock_root(w):
    set_securebits = 28
    call("prctl", set_securebits, 0, 0, 0, 0)


@attempt
def give_a_file_capabilities(w):
    revision_2 = 0x02000001
    capabilities = struct.pack("<5I", revision_2, 1 << CAP_SYS_ADMIN, 0, 0, 0)
    os.setxattr(own_file(w), "security.capability", capabilities)


@attempt
def set_the_setuid_bit(w):
    path = own_file(w)
    os.chmod(path, 0o4755)
    found(os.stat(path).st_mode & stat.S_ISUID, "cleared")


@attempt
def create_with_the_setuid_bit(w):
    os.close(os.open(fresh(w), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o4755))
    found(os.stat(fresh(w)).st_mode & stat.S_ISUID, "cleared")


table(
    become_another_user=lambda w: os.setuid(w.other),
    join_a_group=lambda w: os.setgroups([w.other]),
    read_a_file_of_another_user=lambda w: reads(needed(w.of_another, NOT_ROOT)[1]),
    give_a_file_away=lambda w: os.chown(own_file(w), w.other, -1),
    real_time_priority=lambda w: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
)


# --- Resources, each a little beyond the limits of the attacking tool.


@attempt
def fork_without_end(w):
    for _ in range(120):
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)
    time.sleep(1)


@attempt
def take_memory_without_end(w):
    kept = [bytearray(os.urandom(1 << 20)) * 10 for _ in range(15)]
    time.sleep(1)
    found(kept, "nothing")


@attempt
def take_memory_in_a_file(w):
    file = os.memfd_create("escape")
    for _ in range(150):
        os.write(file, bytes(1 << 20))
    time.sleep(0.5)


@attempt
def take_shared_memory(w):
    import mmap

    size, step = 150 << 20, 5 << 20
    shared = mmap.mmap(-1, size)
    for at in range(0, size, step):
        shared[at : at + step] = bytes(step)
        shared.madvise(mmap.MADV_DONTNEED, at, step)
    time.sleep(0.5)


@attempt
def take_socket_buffers(w):
    kept, sent = [], 0
    while sent < 150 << 20:
        one, other = socket.socketpair()
        one.setblocking(False)
        kept.append(other)
        try:
            while True:
                sent += one.send(bytes(1 << 16))
        except BlockingIOError:
            one.close()
    time.sleep(0.5)


@attempt
def compute_in_children(w):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(12):
        if os.fork() == 0:
            while time.process_time() < 0.06:
                pass
            os._exit(0)
        time.sleep(0.12)


@attempt
def compute_without_end(w):
    while time.process_time() < 1:
        pass


@attempt
def fill_tmp(w):
    path = f"/tmp/{w.marker}-filler"
    try:
        with open(path, "wb") as file:
            for _ in range(4):
                file.write(bytes(1 << 20))
    finally:
        if os.path.exists(path):
            os.unlink(path)


@attempt
def fill_tmp_with_names(w):
    folder = f"/tmp/{w.marker}-names"
    os.mkdir(folder)
    try:
        for number in range(400):
            creates(f"{folder}/{number}")
    finally:
        subprocess.run(["rm", "-r", folder], check=True)


@attempt
def fill_its_folder(w):
    with open(f"data/{w.name}", "wb") as file:
        for _ in range(16):
            file.write(bytes(1 << 20))
    os.unlink(f"data/{w.name}")


@attempt
def open_files_without_end(w):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for _ in range(1500):
        os.dup(0)


@attempt
def outlive_the_call(w):
    survivor = {"SURVIVOR": f"{w.marker}-survivor"}
    nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen(["/bin/sleep", "60"], env=survivor, start_new_session=True, **nowhere)


if __name__ == "__main__":
    main()
