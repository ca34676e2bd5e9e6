//! Runs the filter as the kernel would, for every system call and the arguments of interest, and compares the
//! result with the rules written out plainly.

use super::bpf::{AND, JUMP, JUMP_ANY, JUMP_AT_LEAST, JUMP_EQUAL, LOAD, RETURN};
use super::*;

const LEVELS: [SandboxLevel; 2] = [SandboxLevel::Landlock, SandboxLevel::Full];
const NETWORKS: [Network; 3] = [Network::Deny, Network::Hosts, Network::Allow];
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
/// Beyond the last system call of any architecture.
const NUMBERS: std::ops::Range<u32> = 0..1024;

struct Call {
    arch: u32,
    number: u32,
    arguments: [u64; 6],
}

impl Call {
    /// The word at `offset` of `struct seccomp_data`.
    fn word(&self, offset: usize) -> u32 {
        let argument = |index: usize| self.arguments[index];
        match offset {
            0 => self.number,
            4 => self.arch,
            16.. if offset.is_multiple_of(8) => argument((offset - 16) / 8) as u32,
            20.. if offset.is_multiple_of(4) => (argument((offset - 20) / 8) >> 32) as u32,
            _ => panic!("no word of the call is at {offset}"),
        }
    }
}

fn instructions(program: &[u8]) -> Vec<libc::sock_filter> {
    let (parts, rest) = program.as_chunks::<8>();
    assert!(rest.is_empty());
    let instruction = |part: &[u8; 8]| libc::sock_filter {
        code: u16::from_ne_bytes([part[0], part[1]]),
        jt: part[2],
        jf: part[3],
        k: u32::from_ne_bytes([part[4], part[5], part[6], part[7]]),
    };
    parts.iter().map(instruction).collect()
}

/// The action for a call; panics where the kernel would have refused the program.
fn action(program: &[libc::sock_filter], call: &Call) -> u32 {
    let (mut at, mut loaded) = (0, 0u32);
    loop {
        let libc::sock_filter { code, jt, jf, k } = program[at];
        let choose = |holds: bool| usize::from(if holds { jt } else { jf });
        at += 1 + match code {
            LOAD => {
                loaded = call.word(k as usize);
                0
            }
            AND => {
                loaded &= k;
                0
            }
            JUMP => k as usize,
            JUMP_EQUAL => choose(loaded == k),
            JUMP_AT_LEAST => choose(loaded >= k),
            JUMP_ANY => choose(loaded & k != 0),
            RETURN => return k,
            other => panic!("unknown instruction {other:#x}"),
        };
    }
}

/// Every jump lands inside the program, and no path runs past its end.
fn assert_jumps_land_inside(program: &[libc::sock_filter]) {
    for (at, instruction) in program.iter().enumerate() {
        let targets = match instruction.code {
            RETURN => vec![],
            LOAD | AND => vec![0],
            JUMP => vec![instruction.k as usize],
            _ => vec![usize::from(instruction.jt), usize::from(instruction.jf)],
        };
        for target in targets {
            assert!(at + 1 + target < program.len(), "instruction {at} jumps beyond the end");
        }
    }
}

/// The rules, for one of our architecture's own calls.
fn rule(filter: Filter, call: &Call) -> u32 {
    let Filter { level, network, shared_ipc, counted, metadata, scoped_sockets, truncate_right } = filter;
    let refuse = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
    let [first, second, third, fourth, ..] = call.arguments.map(|argument| argument as u32);
    let number = i64::from(call.number);
    let full = level == SandboxLevel::Full;
    let unix = full && (network != Network::Allow || scoped_sockets);
    let setuid = |mode: u32| (mode & 0o6000 != 0).then_some(libc::EPERM);
    let open = |flags: u32, mode: u32| {
        let truncates = flags & (libc::O_TRUNC | libc::O_ACCMODE) as u32 == libc::O_TRUNC as u32;
        match flags & (libc::O_CREAT as u32 | 0o20_000_000) {
            _ if truncates && !full && !truncate_right => Some(libc::EPERM),
            0 => None,
            _ => setuid(mode),
        }
    };
    let protected = !full && !metadata;
    if protected && METADATA_SYSCALLS.iter().chain(&METADATA_SYSCALLS_OF_ARCH).any(|call| *call == number) {
        return refuse(libc::EPERM);
    }
    let has_inet = full || network != Network::Deny;
    if DENIED_SYSCALLS.contains(&number) || DENIED_SYSCALLS_OF_ARCH.contains(&number) {
        return refuse(libc::EPERM);
    }
    let own_ipc = full && !shared_ipc;
    if IPC_SYSCALLS.contains(&number) && !own_ipc {
        return refuse(libc::EPERM);
    }
    let refused = match number {
        libc::SYS_clone3 => Some(libc::ENOSYS),
        libc::SYS_clone => (first & NAMESPACES != 0).then_some(libc::EPERM),
        libc::SYS_unshare => (first & (NAMESPACES | CLONE_NEWTIME) != 0).then_some(libc::EPERM),
        libc::SYS_personality => (first != 0 && first != u32::MAX).then_some(libc::EPERM),
        libc::SYS_ioctl => {
            let terminal = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32].contains(&second);
            let attributes = [0x4008_6602, 0x401c_5820].contains(&second);
            (terminal || attributes && !full).then_some(libc::EPERM)
        }
        libc::SYS_prlimit64 => (first != 0 && call.arguments[2] != 0).then_some(libc::EPERM),
        libc::SYS_memfd_create => (!counted).then_some(libc::ENOSYS),
        libc::SYS_openat2 => Some(libc::ENOSYS),
        libc::SYS_openat => open(third, fourth),
        libc::SYS_fchmod => setuid(second),
        libc::SYS_fchmodat | FCHMODAT2 | libc::SYS_mknodat => setuid(third),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => open(second, third),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_mknod | libc::SYS_creat => setuid(second),
        libc::SYS_utimensat => (protected && call.arguments[1..3] != [0, 0]).then_some(libc::EPERM),
        libc::SYS_truncate => (!full && !truncate_right).then_some(libc::EPERM),
        libc::SYS_socketpair => match (first as i32, (second & 0xf) as i32) {
            (libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_SEQPACKET) => None,
            (libc::AF_UNIX, _) => (!unix || !counted).then_some(libc::EPERM),
            _ => Some(libc::EAFNOSUPPORT),
        },
        libc::SYS_socket => match first as i32 {
            libc::AF_UNIX if unix => {
                let datagrams = [libc::SOCK_DGRAM as u32, libc::SOCK_RAW as u32].contains(&(second & 0xf));
                (datagrams && !counted).then_some(libc::EPERM)
            }
            libc::AF_NETLINK if has_inet => {
                (third != libc::NETLINK_ROUTE as u32).then_some(libc::EAFNOSUPPORT)
            }
            libc::AF_INET | libc::AF_INET6 if has_inet => match (third as i32, (second & 0xf) as i32) {
                (0 | libc::IPPROTO_TCP | libc::IPPROTO_UDP, libc::SOCK_STREAM | libc::SOCK_DGRAM) => None,
                (0 | libc::IPPROTO_TCP | libc::IPPROTO_UDP, _) => Some(libc::EPERM),
                _ => Some(libc::EPROTONOSUPPORT),
            },
            _ => Some(libc::EAFNOSUPPORT),
        },
        _ => None,
    };
    refused.map_or(ALLOW, refuse)
}

/// Values of interest for each argument, with the high half set too: the kernel ignores it there.
fn arguments(number: u32) -> Vec<[u64; 6]> {
    let flags = || (0..32).map(|bit| 1u64 << bit).chain([0, u64::from(u32::MAX), 1 << 32, u64::MAX]);
    match i64::from(number) {
        libc::SYS_clone | libc::SYS_unshare | libc::SYS_personality => {
            flags().map(|first| [first, 0, 0, 0, 0, 0]).collect()
        }
        libc::SYS_ioctl => [libc::TIOCSTI, libc::TIOCLINUX, libc::TCGETS, 0x4008_6602, 0x401c_5820]
            .into_iter()
            .flat_map(|request| [request, request | 1 << 40])
            .map(|request| [0, request, 0, 0, 0, 0])
            .collect(),
        libc::SYS_socket | libc::SYS_socketpair => {
            let mut all = Vec::new();
            for family in 0..48 {
                for kind in (0..16).chain([libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::SOCK_DGRAM | 0x800])
                {
                    for protocol in [0, 1, 6, 17, 132, 255, 262] {
                        all.push([family, kind as u64, protocol, 0, 0, 0]);
                    }
                }
            }
            all.push([2 | 1 << 32, 1 | 1 << 32, 6 | 1 << 32, 0, 0, 0]);
            all
        }
        libc::SYS_prlimit64 | libc::SYS_utimensat => {
            let values = [0, 1, 1 << 32, u64::MAX];
            let pairs = values.into_iter().flat_map(|one| values.map(|other| (one, other)));
            let all = pairs.flat_map(|(one, other)| values.map(|third| [one, other, third, 0, 0, 0]));
            all.collect()
        }
        // The flags of opening, and modes.
        _ => {
            let modes = [0, 0o644, 0o1777, 0o2755, 0o4755, 0o6000, 0o644 | 1 << 40];
            let flags =
                [0, 1, 2, 0o100, 0o102, 0o1000, 0o1001, 0o1102, 0o20_200_000, 0o20_200_002, 0o200_000];
            let mut all = vec![[0; 6], [u64::MAX; 6]];
            for (mode, flags) in modes.into_iter().flat_map(|mode| flags.map(|flags| (mode, flags))) {
                all.extend([[0, flags, mode, mode, 0, 0], [0, mode, flags, mode, 0, 0]]);
            }
            all
        }
    }
}

fn every_filter() -> impl Iterator<Item = Filter> {
    let kinds = LEVELS.into_iter().flat_map(|level| NETWORKS.map(|network| (level, network)));
    kinds.flat_map(|(level, network)| {
        (0..32).map(move |bits: u32| Filter {
            level,
            network,
            shared_ipc: bits & 1 != 0,
            counted: bits & 2 != 0,
            scoped_sockets: bits & 4 != 0,
            truncate_right: bits & 8 != 0,
            metadata: bits & 16 != 0,
        })
    })
}

#[test]
fn every_call_gets_the_action_of_its_rule() {
    for filter in every_filter() {
        let program = instructions(&filter.program());
        assert_jumps_land_inside(&program);
        let mut seen = std::collections::BTreeSet::new();
        for number in NUMBERS {
            for arguments in arguments(number) {
                let call = Call { arch: ARCHITECTURE, number, arguments };
                let done = action(&program, &call);
                assert_eq!(done, rule(filter, &call), "{filter:?}: {number} {arguments:x?}");
                seen.insert(done);
            }
        }
        // Not all the same by mistake: allowed, EPERM, ENOSYS, EAFNOSUPPORT, with sockets of the internet also
        // EPROTONOSUPPORT.
        let has_inet = filter.level == SandboxLevel::Full || filter.network != Network::Deny;
        assert_eq!(seen.len(), if has_inet { 5 } else { 4 });
    }
}

#[test]
fn calls_of_another_architecture_and_of_x32_end_the_process() {
    let filter = every_filter().last().unwrap();
    let program = instructions(&filter.program());
    let kill = |arch, number| action(&program, &Call { arch, number, arguments: [0; 6] }) == KILL;
    for number in NUMBERS {
        // i386, the other architecture of ours, and none.
        for arch in [0x4000_0003, ARCHITECTURE ^ 0xc000_003e ^ 0xc000_00b7, 0] {
            assert!(kill(arch, number), "{arch:#x} {number}");
        }
        assert_eq!(kill(ARCHITECTURE, number | 0x4000_0000), cfg!(target_arch = "x86_64"), "{number}");
        assert!(!kill(ARCHITECTURE, number), "{number}");
    }
}

/// The search has offsets of eight bits; more values than they can skip need plain jumps.
#[test]
fn a_search_finds_its_values_however_many_there_are() {
    for count in [1, 3, 4, 100, 250, 1000, 5000] {
        let values: Vec<u32> = (0..count).map(|n| n * 3 + 1).collect();
        let mut rules = SyscallRules::default();
        values.iter().for_each(|value| rules.always(i64::from(*value), Action::Kill));
        let mut code = BpfProgram::default();
        code.load_number();
        code.dispatch(&rules.sorted());
        code.return_action(Action::Allow);
        let program = instructions(&code.bytes);
        assert_jumps_land_inside(&program);
        for number in 0..count * 3 + 3 {
            let done = action(&program, &Call { arch: 0, number, arguments: [0; 6] });
            assert_eq!(done == KILL, values.contains(&number), "{number} of {count}");
        }
    }
}
