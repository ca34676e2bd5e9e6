# --- Files. The note of an attempt lies outside, in a folder of its own.


@attempt
def exchange_with_outside(w):
    exchange = 2
    call("renameat2", AT_FDCWD, own_file(w).encode(), AT_FDCWD, w.note.encode(), exchange)


@attempt
def watch_outside(w):
    opened = 0x20
    call("inotify_add_watch", call("inotify_init1", 0), w.note.encode(), opened)


@attempt
def link_into_its_folder(w):
    os.link(w.note, fresh(w))
    reads(fresh(w))


@attempt
def follow_its_own_link(w):
    os.symlink(w.note, fresh(w))
    reads(fresh(w))


@attempt
def climb_from_a_descriptor(w):
    folder = os.open("data", os.O_RDONLY)
    os.close(os.open(os.path.relpath(w.note, "data"), os.O_RDONLY, dir_fd=folder))


@attempt
def give_an_unnamed_file_a_name_outside(w):
    file = os.open("data", os.O_TMPFILE | os.O_RDWR)
    follow = 0x400
    call("linkat", AT_FDCWD, f"/proc/self/fd/{file}".encode(), AT_FDCWD, f"{w.own}/new".encode(), follow)


@attempt
def open_by_handle(w):
    handle = bytes.fromhex(needed(w.handle, "the file system has no file handles"))
    os.close(call("open_by_handle_at", os.open("data", os.O_RDONLY), handle, os.O_RDONLY))


table(
    read_outside=lambda w: reads(w.note),
    overwrite_outside=lambda w: opens(w.note),
    create_outside=lambda w: creates(f"{w.own}/new"),
    truncate_outside=lambda w: os.truncate(w.note, 0),
    rename_outside=lambda w: os.rename(w.note, f"{w.own}/renamed"),
    remove_outside=lambda w: os.unlink(w.note),
    make_a_folder_outside=lambda w: os.mkdir(f"{w.own}/folder"),
    make_a_link_outside=lambda w: os.symlink("anywhere", f"{w.own}/link"),
    list_outside=lambda w: found(os.listdir(w.own), "empty"),
    stat_outside=lambda w: os.stat(w.note),
    execute_outside=lambda w: subprocess.run([w.note], check=True),
    change_mode_outside=lambda w: os.chmod(w.note, 0o600),
    change_group_outside=lambda w: os.chown(w.note, -1, os.getgid()),
    change_times_outside=lambda w: os.utime(w.note, (1, 1)),
    set_an_attribute_outside=lambda w: os.setxattr(w.note, "user.escape", b"x"),
    link_out_of_its_folder=lambda w: os.link(own_file(w), f"{w.own}/new"),
    move_out_of_its_folder=lambda w: os.rename(own_file(w), f"{w.own}/new"),
)


# --- The yard.


table(
    write_the_yard=lambda w: creates(w.name),
    reopen_for_writing=lambda w: opens(f"/proc/self/fd/{os.open('toolyard.toml', os.O_RDONLY)}", os.O_RDWR),
    change_the_configuration=lambda w: opens("toolyard.toml"),
    change_its_code=lambda w: opens("tools/attack.py"),
    move_in_a_tool=lambda w: os.rename(own_file(w), "tools/moved.txt"),
    change_mode_in_the_yard=lambda w: os.chmod("toolyard.toml", 0o600),
    change_mode_by_descriptor=lambda w: os.fchmod(os.open("toolyard.toml", os.O_RDONLY), 0o600),
    truncate_in_the_yard=lambda w: os.truncate("truncated.txt", 0),
    truncate_by_reading=lambda w: opens("truncated.txt", os.O_RDONLY | os.O_TRUNC),
    lock_in_the_yard=lambda w: fcntl.flock(os.open("toolyard.toml", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB),
    lease_in_the_yard=lambda w: fcntl.fcntl(os.open("toolyard.toml", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK),
    add_a_git_hook=lambda w: creates(".git/hooks/pre-commit"),
    list_the_state_folder=lambda w: found(os.listdir(".toolyard"), "empty"),
    read_the_state_folder=lambda w: reads(w.state),
    write_the_state_folder=lambda w: creates(f".toolyard/{w.name}"),
)


# --- The machine.


@attempt
def read_names_of_users(w):
    with open("/etc/passwd") as file:
        found("daemon:" in file.read(), "only its own")


@attempt
def write_the_root_folder(w):
    path = f"/{w.marker}"
    creates(path)
    os.unlink(path)


@attempt
def make_a_disk(w):
    path = fresh(w)
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0))
    os.unlink(path)


@attempt
def make_a_cgroup(w):
    path = f"{needed(w.cgroup, 'no cgroup is mounted')}/{w.marker}"
    os.mkdir(path)
    os.rmdir(path)


@attempt
def read_the_kernels_addresses(w):
    with open("/proc/kallsyms") as file:
        found(int(file.readline().split()[0], 16), "zeros")


@attempt
def read_physical_addresses(w):
    here = ctypes.create_string_buffer(b"x")
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(ctypes.addressof(here) // resource.getpagesize() * 8)
        found(struct.unpack("Q", file.read(8))[0] & ((1 << 55) - 1), "zeros")


table(
    read_the_home_folder=lambda w: reads(f"{w.home}/private"),
    write_the_home_folder=lambda w: creates(f"{w.home}/.profile"),
    read_shadow=lambda w: reads("/etc/shadow"),
    change_a_library=lambda w: opens(os.__file__),
    open_a_disk=lambda w: opens(needed(w.disk, "there is no disk"), os.O_RDONLY),
    open_a_device=lambda w: opens("/dev/fuse", os.O_RDWR),
    change_a_devices_mode=lambda w: os.chmod("/dev/null", stat.S_IMODE(os.stat("/dev/null").st_mode)),
    change_the_core_pattern=lambda w: opens("/proc/sys/kernel/core_pattern"),
    change_a_device_in_sys=lambda w: opens("/sys/devices/system/cpu/uevent"),
    read_the_list_of_keys=lambda w: reads("/proc/keys"),
)


