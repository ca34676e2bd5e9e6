//! The attempts, and how each must end at each level.

/// Attempts that one tool makes.
pub struct Area {
    pub title: &'static str,
    pub tool: Tool,
    pub attempts: &'static [Attempt],
}

pub struct Attempt {
    pub name: &'static str,
    pub what: &'static str,
    pub control: Control,
    /// How it ends: `possible`, the name of an error number, or another word; `root / ordinary user` if they differ.
    pub full: &'static str,
    pub landlock: &'static str,
}

/// Who succeeds without a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    AnyUser,
    Root,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Plain,
    /// With limits of memory and processes.
    Limited,
    /// With a limit of CPU time, which the other attempts must not reach.
    LimitedCpu,
    /// With `network: allow`.
    WithNetwork,
    /// With a list of one host.
    WithHosts,
}

impl Tool {
    pub const ALL: [Tool; 5] =
        [Tool::Plain, Tool::Limited, Tool::LimitedCpu, Tool::WithNetwork, Tool::WithHosts];

    pub fn name(self) -> &'static str {
        match self {
            Tool::Plain => "attack",
            Tool::Limited => "bomb",
            Tool::LimitedCpu => "busy",
            Tool::WithNetwork => "allowed",
            Tool::WithHosts => "listed",
        }
    }

    /// What its file asks for.
    pub fn sandbox(self, port: u64) -> String {
        match self {
            Tool::Plain => "fs: {write: [data]}, tmp: 1048576".to_owned(),
            Tool::Limited => "memory: 80000000, processes: 40".to_owned(),
            Tool::LimitedCpu => "cpuMs: 400".to_owned(),
            Tool::WithNetwork => "network: allow".to_owned(),
            Tool::WithHosts => format!("network: ['127.0.0.1:{port}']"),
        }
    }
}

pub fn attempts() -> impl Iterator<Item = &'static Attempt> {
    AREAS.iter().flat_map(|area| area.attempts)
}

const fn any(name: &'static str, what: &'static str, full: &'static str, landlock: &'static str) -> Attempt {
    Attempt { name, what, control: Control::AnyUser, full, landlock }
}

const fn root(name: &'static str, what: &'static str, full: &'static str, landlock: &'static str) -> Attempt {
    Attempt { name, what, control: Control::Root, full, landlock }
}

#[rustfmt::skip] // One attempt per line.
pub const AREAS: &[Area] = &[
    Area {
        title: "files outside",
        tool: Tool::Plain,
        attempts: &[
            any("read_outside", "read a file", "ENOENT", "EACCES"),
            any("overwrite_outside", "open a file for writing", "ENOENT", "EACCES"),
            any("create_outside", "create a file", "ENOENT", "EACCES"),
            any("truncate_outside", "truncate a file", "ENOENT", "EACCES"),
            any("rename_outside", "rename a file", "ENOENT", "EACCES"),
            any("exchange_with_outside", "exchange a file with its own", "ENOENT", "EACCES"),
            any("remove_outside", "remove a file", "ENOENT", "EACCES"),
            any("make_a_folder_outside", "create a folder", "ENOENT", "EACCES"),
            any("make_a_link_outside", "create a symbolic link", "ENOENT", "EACCES"),
            any("list_outside", "list a folder", "ENOENT", "EACCES"),
            any("execute_outside", "execute a program", "ENOENT", "EACCES"),
            any("stat_outside", "learn that a file exists, its size and times", "ENOENT", "possible"),
            any("watch_outside", "watch a file with inotify", "ENOENT", "possible"),
            any("change_mode_outside", "change a file's mode", "ENOENT", "EPERM"),
            any("change_group_outside", "set a file's group to its own", "ENOENT", "EPERM"),
            any("change_times_outside", "change a file's times", "ENOENT", "EPERM"),
            any("set_an_attribute_outside", "set a file's extended attribute", "ENOENT", "EPERM"),
            any("link_into_its_folder", "link a file into its own folder", "ENOENT", "EXDEV"),
            any("link_out_of_its_folder", "link a file of its own to outside", "ENOENT", "EACCES"),
            any("move_out_of_its_folder", "move a file of its own outside", "ENOENT", "EACCES"),
            any("follow_its_own_link", "read through a symbolic link of its own", "ENOENT", "EACCES"),
            any("climb_from_a_descriptor", "climb with `..` from a folder's descriptor", "ENOENT", "EACCES"),
            any("give_an_unnamed_file_a_name_outside", "give an unnamed file a name outside", "ENOENT", "EACCES"),
            root("open_by_handle", "open a file by its handle", "EPERM", "EPERM"),
        ],
    },
    Area {
        title: "the yard and its owner",
        tool: Tool::Plain,
        attempts: &[
            any("write_the_yard", "create a file in the yard", "EROFS", "EACCES"),
            any("reopen_for_writing", "reopen a file of the yard for writing, through `/proc/self/fd`", "EROFS", "EACCES"),
            any("change_the_configuration", "write `toolyard.toml`", "EROFS", "EACCES"),
            any("change_its_code", "write its own code", "EROFS", "EACCES"),
            any("move_in_a_tool", "move a file into `tools`", "EXDEV", "EACCES"),
            any("change_mode_in_the_yard", "change the mode of a file of the yard", "EROFS", "EPERM"),
            any("change_mode_by_descriptor", "change the mode of a file of the yard that was opened for reading", "EROFS", "EPERM"),
            any("truncate_in_the_yard", "truncate a file of the yard", "EROFS", "EACCES"),
            any("truncate_by_reading", "truncate a file of the yard by opening it for reading", "EROFS", "EACCES"),
            any("lock_in_the_yard", "lock a file of the yard (flock)", "possible", "possible"),
            any("lease_in_the_yard", "hold a lease on a file of the yard", "possible", "possible"),
            any("add_a_git_hook", "add a git hook", "EROFS", "EACCES"),
            any("list_the_state_folder", "list the state folder", "empty", "possible"),
            any("read_the_state_folder", "read a file of the state folder", "ENOENT", "EACCES"),
            any("write_the_state_folder", "create a file in the state folder", "EROFS", "EACCES"),
            any("read_the_home_folder", "read the owner's home", "ENOENT", "EACCES"),
            any("write_the_home_folder", "create a `.profile` in the owner's home", "ENOENT", "EACCES"),
            any("find_the_owners_environment", "find a variable of the owner's environment", "not there", "not there"),
            any("find_an_inherited_descriptor", "find a descriptor that was not meant for it", "none", "none"),
        ],
    },
    Area {
        title: "the machine's files",
        tool: Tool::Plain,
        attempts: &[
            root("read_shadow", "read `/etc/shadow`", "ENOENT", "EACCES"),
            any("read_names_of_users", "read the names of users", "only its own", "EACCES"),
            root("write_the_root_folder", "create a file in `/`", "EROFS", "EACCES"),
            root("change_a_library", "write the interpreter's library", "EROFS / EACCES", "EACCES"),
            root("open_a_disk", "open a disk", "ENOENT", "EACCES"),
            root("make_a_disk", "create a disk's device node", "EACCES", "EACCES"),
            root("open_a_device", "open `/dev/fuse`", "ENOENT", "EACCES"),
            root("change_a_devices_mode", "change the mode of `/dev/null`", "EROFS", "EPERM"),
            root("change_the_core_pattern", "open `/proc/sys/kernel/core_pattern` for writing", "EROFS", "EACCES"),
            root("change_a_device_in_sys", "open a device's file in `/sys` for writing", "EROFS / EACCES", "EACCES"),
            root("make_a_cgroup", "create a cgroup", "ENOENT", "EACCES"),
            root("read_the_kernels_addresses", "read the kernel's addresses", "zeros", "EACCES"),
            root("read_physical_addresses", "read physical addresses of its memory", "zeros", "EACCES"),
            root("read_the_list_of_keys", "read `/proc/keys`", "empty", "EACCES"),
            root("read_the_kernels_log_device", "read `/dev/kmsg`", "ENOENT", "EACCES"),
        ],
    },
    Area {
        title: "other processes",
        tool: Tool::Plain,
        attempts: &[
            any("read_through_its_root", "read a file through `/proc/PID/root`", "ENOENT", "EACCES"),
            any("read_through_its_working_folder", "read a file through `/proc/PID/cwd`", "ENOENT", "EACCES"),
            any("read_through_its_descriptors", "read a file through `/proc/PID/fd`", "ENOENT", "EACCES"),
            any("read_its_environment", "read `/proc/PID/environ`", "ENOENT", "EACCES"),
            any("read_its_arguments", "read `/proc/PID/cmdline`", "ENOENT", "EACCES"),
            any("read_its_memory_file", "read `/proc/PID/mem`", "ENOENT", "EACCES"),
            any("read_through_the_root_of_process_1", "read a file through `/proc/1/root`", "ENOENT", "EACCES"),
            any("read_the_environment_of_process_1", "read `/proc/1/environ`", "ENOENT", "EACCES"),
            any("open_the_memory_of_process_1", "open `/proc/1/mem`", "ENOENT", "EACCES"),
            any("read_the_mounts_of_process_1", "read `/proc/1/mounts`", "ENOENT", "EACCES"),
            any("read_the_network_of_process_1", "read `/proc/1/net/dev`", "ENOENT", "EACCES"),
            any("read_the_launchers_memory", "read the launcher's memory (process_vm_readv)", "EPERM", "EPERM"),
            any("write_the_launchers_memory", "write the launcher's memory (process_vm_writev)", "EPERM", "EPERM"),
            any("trace_the_launcher", "trace the launcher (ptrace)", "EPERM", "EPERM"),
            any("have_itself_traced", "have itself traced (ptrace)", "EPERM", "EPERM"),
            any("take_a_descriptor_of_the_launcher", "take a descriptor of the launcher (pidfd_getfd)", "EPERM", "EPERM"),
            any("compare_with_the_launcher", "compare itself with the launcher (kcmp)", "EPERM", "EPERM"),
            any("signal_outside", "signal a process outside", "ESRCH", "ESRCH"),
            any("signal_the_launcher", "signal the launcher", "EPERM", "EPERM"),
            any("signal_the_launcher_by_descriptor", "signal the launcher through a pidfd", "EPERM", "EPERM"),
            any("change_limits_outside", "change the limits of a process outside", "EPERM", "EPERM"),
            any("change_limits_of_process_1", "change the limits of process 1 of its pid namespace", "EPERM", "EPERM"),
            any("change_priority_outside", "change the priority of a process outside", "ESRCH", "ESRCH"),
            any("type_into_a_terminal", "type into a terminal (TIOCSTI)", "EPERM", "EPERM"),
            any("open_the_terminal", "open the owner's terminal", "ENOENT", "EACCES"),
            any("shared_memory_by_key", "open System V shared memory by its key", "EPERM", "EPERM"),
            any("shared_memory_by_id", "attach System V shared memory by its number", "EPERM", "EPERM"),
            any("semaphore_by_id", "change a System V semaphore by its number", "EPERM", "EPERM"),
            any("message_queue_by_id", "receive from a System V queue by its number", "EPERM", "EPERM"),
            any("posix_queue", "open a POSIX message queue", "EPERM", "EPERM"),
            any("remove_a_posix_queue", "remove a POSIX message queue", "EPERM", "EPERM"),
            any("posix_shared_memory", "open POSIX shared memory", "ENOENT", "EACCES"),
            any("file_of_another_tool", "read a file in another tool's `/tmp`", "ENOENT", "EACCES"),
            any("socket_of_another_tool", "connect to another tool's abstract socket", "ECONNREFUSED", "EAFNOSUPPORT"),
        ],
    },
    Area {
        title: "network",
        tool: Tool::Plain,
        attempts: &[
            any("tcp", "connect by TCP", "ECONNREFUSED", "EAFNOSUPPORT"),
            any("tcp_over_ipv6", "connect by TCP over IPv6", "ECONNREFUSED", "EAFNOSUPPORT"),
            any("multipath_tcp", "connect by multipath TCP", "EPROTONOSUPPORT", "EAFNOSUPPORT"),
            any("udp", "send by UDP", "ECONNREFUSED", "EAFNOSUPPORT"),
            any("listen_for_others", "listen for connections", "possible", "EAFNOSUPPORT"),
            root("raw_socket", "open a raw socket", "EPROTONOSUPPORT", "EAFNOSUPPORT"),
            root("packet_socket", "open a packet socket", "EAFNOSUPPORT", "EAFNOSUPPORT"),
            any("netlink_socket", "open a netlink socket", "possible", "EAFNOSUPPORT"),
            any("vsock", "open a socket to the host of a virtual machine", "EAFNOSUPPORT", "EAFNOSUPPORT"),
            any("unix_socket_by_path", "connect to a UNIX socket outside", "ENOENT", "EAFNOSUPPORT"),
            any("unix_socket_by_abstract_name", "connect to an abstract UNIX socket", "ECONNREFUSED", "EAFNOSUPPORT"),
            any("unix_socket_of_the_yard", "connect to a UNIX socket in the yard", "possible", "EAFNOSUPPORT"),
            any("unix_socket_from_a_pair", "send to a UNIX socket outside from a pair", "ENOENT / EPERM", "EPERM"),
            any("abstract_socket_from_a_pair", "send to an abstract UNIX socket from a pair", "ECONNREFUSED / EPERM", "EPERM"),
        ],
    },
    Area {
        title: "with `network: allow`",
        tool: Tool::WithNetwork,
        attempts: &[
            root("allowed_raw_socket", "open a raw socket", "EPROTONOSUPPORT", "EPROTONOSUPPORT"),
            any("allowed_multipath_tcp", "connect by multipath TCP", "EPROTONOSUPPORT", "EPROTONOSUPPORT"),
            any("allowed_unix_socket_by_path", "connect to a UNIX socket outside", "ENOENT", "EAFNOSUPPORT"),
            any("allowed_unix_socket_by_abstract_name", "connect to an abstract UNIX socket", "EPERM", "EAFNOSUPPORT"),
        ],
    },
    Area {
        title: "with a list of hosts",
        tool: Tool::WithHosts,
        attempts: &[
            any("listed_tcp", "connect without the proxy", "ECONNREFUSED", "not loaded"),
            any("listed_udp", "send by UDP", "ECONNREFUSED", "not loaded"),
            any("listed_other_host", "ask the proxy for another host", "HTTP 403", "not loaded"),
        ],
    },
    Area {
        title: "namespaces and mounts",
        tool: Tool::Plain,
        attempts: &[
            any("new_user_namespace", "create a user namespace (unshare)", "EPERM", "EPERM"),
            root("new_mount_namespace", "create a mount namespace (unshare)", "EPERM", "EPERM"),
            root("new_time_namespace", "create a time namespace (unshare)", "EPERM", "EPERM"),
            any("clone_with_a_namespace", "create a user namespace (clone)", "EPERM", "EPERM"),
            any("clone3_with_a_namespace", "create a user namespace (clone3)", "ENOSYS", "ENOSYS"),
            root("join_a_namespace", "join a namespace", "EPERM", "EPERM"),
            root("mount_a_file_system", "mount a file system", "EPERM", "EPERM"),
            root("bind_the_root_folder", "bind `/` into its own folder", "EPERM", "EPERM"),
            root("unmount", "unmount", "EPERM", "EPERM"),
            root("open_a_file_system", "mount with fsopen", "EPERM", "EPERM"),
            root("copy_a_mount", "mount with open_tree", "EPERM", "EPERM"),
            root("change_the_root", "chroot", "EPERM", "EPERM"),
            root("exchange_the_root", "pivot_root", "EPERM", "EPERM"),
        ],
    },
    Area {
        title: "the kernel",
        tool: Tool::Plain,
        attempts: &[
            root("bpf", "load a bpf map", "EPERM", "EPERM"),
            any("performance_counters", "open a performance counter", "EPERM", "EPERM"),
            any("page_faults", "handle page faults (userfaultfd)", "EPERM", "EPERM"),
            any("io_uring", "set up io_uring", "EPERM", "EPERM"),
            any("add_a_key", "add a key to a keyring", "EPERM", "EPERM"),
            root("watch_the_file_system", "watch the file system (fanotify)", "EPERM", "EPERM"),
            root("read_the_kernels_log", "read the kernel's log (syslog)", "EPERM", "EPERM"),
            root("reboot", "reboot", "EPERM", "EPERM"),
            root("add_swap", "add swap space", "EPERM", "EPERM"),
            root("set_the_clock", "set the clock", "EPERM", "EPERM"),
            root("set_the_host_name", "set the host name", "EPERM", "EPERM"),
            any("switch_off_randomisation", "switch off address randomisation", "EPERM", "EPERM"),
            any("change_the_descriptor_table", "read the local descriptor table", "EPERM", "EPERM"),
            any("call_as_a_32_bit_program", "make a 32-bit system call", "killed (SIGSYS)", "killed (SIGSYS)"),
            any("call_as_an_x32_program", "make an x32 system call", "killed (SIGSYS)", "killed (SIGSYS)"),
        ],
    },
    Area {
        title: "rights",
        tool: Tool::Plain,
        attempts: &[
            any("run_a_setuid_program", "run a setuid program of another user", "the same user", "the same user"),
            root("become_another_user", "become another user", "EPERM / EINVAL", "EPERM / EINVAL"),
            root("join_a_group", "join a group", "EPERM", "EPERM"),
            root("take_a_capability", "take a capability", "EPERM", "EPERM"),
            root("unlock_root", "give root its privileges back (securebits)", "EPERM", "EPERM"),
            root("read_a_file_of_another_user", "read a file of the yard that only another user may read", "EACCES", "EACCES"),
            root("give_a_file_away", "give a file of its own to another user", "EPERM / EINVAL", "EPERM"),
            root("give_a_file_capabilities", "give a file of its own capabilities", "EPERM", "EPERM"),
            any("set_the_setuid_bit", "set the setuid bit of a file of its own", "EPERM", "EPERM"),
            any("create_with_the_setuid_bit", "create a file with the setuid bit", "EPERM", "EPERM"),
            root("real_time_priority", "take a real-time priority", "EPERM", "EPERM"),
        ],
    },
    Area {
        title: "resources",
        tool: Tool::Plain,
        attempts: &[
            any("fill_tmp", "fill `/tmp` with bytes", "ENOSPC", "EACCES"),
            any("fill_tmp_with_names", "fill `/tmp` with names", "ENOSPC", "EACCES"),
            any("fill_its_folder", "fill the disk through its own folder", "possible", "possible"),
            any("open_files_without_end", "open files without end", "EMFILE", "EMFILE"),
        ],
    },
    Area {
        title: "limits of memory and processes",
        tool: Tool::Limited,
        attempts: &[
            any("fork_without_end", "fork without end", "killed (processes)", "killed (processes) / EAGAIN"),
            any("take_memory_without_end", "take memory without end", "killed (memory)", "killed (memory)"),
            any("take_memory_in_a_file", "take memory without end in a file (memfd)", "killed (memory) / ENOSYS", "killed (memory) / ENOSYS"),
            any("take_shared_memory", "take shared memory that no process has mapped", "killed (memory)", "killed (memory)"),
            any("take_socket_buffers", "take memory without end in socket buffers", "killed (memory)", "killed (memory)"),
            any("outlive_the_call", "leave a process running after the call", "killed", "killed"),
        ],
    },
    Area {
        title: "limit of CPU time",
        tool: Tool::LimitedCpu,
        attempts: &[
            any("compute_without_end", "compute without end", "killed (CPU time)", "killed (CPU time)"),
            any("compute_in_children", "compute in children that nobody waits for", "killed (CPU time)", "killed (CPU time)"),
        ],
    },
];
