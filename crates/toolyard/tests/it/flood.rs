//! Thousands of hostile connections at once, on the default limits, while an ordinary client keeps working.

use crate::support::{Server, Yard, eventually};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HALF_OPEN: usize = 3000;
const SLOW_READERS: usize = 1000;
const FLOOD: Duration = Duration::from_secs(10);
const CALLS: usize = 2000;

#[test]
fn half_open_connections_slow_readers_and_garbage_do_not_disturb_another_client() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[builtin]\necho = true\n");
    // The server starts with the usual soft limit and raises it itself.
    let most = allow_descriptors(1024);
    let server = yard.serve();
    assert!(most > 5000, "{most} descriptors are too few to try this; raise the hard limit (ulimit -Hn)");
    allow_descriptors(most);
    calls(&server, CALLS);
    let quiet = median(calls(&server, CALLS));
    let before = server.memory_kb();

    let mut hostile: Vec<TcpStream> = (0..HALF_OPEN).map(|_| half_open(&server.address)).collect();
    hostile.extend((0..SLOW_READERS).map(|number| slow_reader(&server.address, number % 2 == 0)));
    let (over, garbage) = (AtomicBool::new(false), AtomicU64::new(0));
    let busy = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                garbage.fetch_add(send_garbage(&server.address), Ordering::Relaxed);
            }
        });
        let until = Instant::now() + FLOOD;
        let mut busy = Vec::new();
        while Instant::now() < until {
            busy.extend(calls(&server, 50));
        }
        over.store(true, Ordering::Relaxed);
        busy
    });
    let during = server.memory_kb();
    drop(hostile);

    // Other work on the machine adds noise, so the baseline is the slower of before and after.
    let afterwards = median(calls(&server, CALLS));
    let (made, slowed) = (busy.len(), median(busy));
    eprintln!(
        "p50 of a call: {quiet:?} before, {slowed:?} during ({made} calls, {} kB of garbage), {afterwards:?} after",
        garbage.load(Ordering::Relaxed) / 1024
    );
    let after = settled(&server, before);
    eprintln!("memory: {before} kB before, {during} kB during, {after} kB after");
    assert!(garbage.load(Ordering::Relaxed) > 1 << 20, "that is no flood");
    assert!(slowed <= 2 * quiet.max(afterwards), "{slowed:?} against {quiet:?} and {afterwards:?}");
    assert!(after <= before + before / 10, "{after} kB, and {before} kB before");
}

/// Resident memory once it is within a tenth of `before`, or after some seconds.
fn settled(server: &Server, before: u64) -> u64 {
    let until = Instant::now() + Duration::from_secs(30);
    while server.memory_kb() > before + before / 10 && Instant::now() < until {
        // The server releases memory only while it handles requests.
        calls(server, 10);
        std::thread::sleep(Duration::from_millis(100));
    }
    server.memory_kb()
}

/// Duration of each call of the echo tool on one new connection; each must succeed.
fn calls(server: &Server, number: usize) -> Vec<Duration> {
    let mut client = server.client();
    let one = |_| {
        let started = Instant::now();
        let answer = client.send("POST", "/mcp/tool/yard.echo", &[], br#"{"message":"hello"}"#);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        started.elapsed()
    };
    (0..number).map(one).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn half_open(address: &str) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(b"POST /mcp/tool/yard.echo HTTP/1.1\r\nhost: local").unwrap();
    stream
}

/// Requests an endless stream, or more than the socket buffers hold, and reads nothing.
fn slow_reader(address: &str, stream: bool) -> TcpStream {
    let mut connection = connect_with_small_buffers(address);
    if stream {
        connection.write_all(b"GET /sse HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        return connection;
    }
    let body = format!(r#"{{"message":"{}"}}"#, "x".repeat(60_000));
    let head = "POST /mcp/tool/yard.echo HTTP/1.1\r\nhost: localhost\r\ncontent-length:";
    connection.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    connection
}

/// A connection with small segments and a small window, so that the kernel buffers little.
pub fn connect_with_small_buffers(address: &str) -> TcpStream {
    let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let stream = TcpStream::from(socket(AddressFamily::INET, SocketType::STREAM, None).unwrap());
    let segment: libc::c_int = 536;
    let (size, value) = (size_of_val(&segment) as libc::socklen_t, std::ptr::from_ref(&segment).cast());
    // SAFETY: the descriptor is open, and the value is read for its own size. rustix does not have the option.
    let set =
        unsafe { libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, value, size) };
    assert_eq!(set, 0);
    set_socket_recv_buffer_size(&stream, 4096).unwrap();
    rustix::net::connect(&stream, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    stream
}

/// Sends bytes that are not HTTP until the connection is closed; returns how many.
fn send_garbage(address: &str) -> u64 {
    let Ok(mut stream) = TcpStream::connect(address) else { return 0 };
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let garbage: Vec<u8> = (0..65_536u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let sent = (0..16).take_while(|_| stream.write_all(&garbage).is_ok()).count();
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; 1024]);
    (sent * garbage.len()) as u64
}

fn connect(address: &str) -> TcpStream {
    let mut stream = None;
    eventually("a connection is accepted", Duration::from_secs(10), || {
        stream = TcpStream::connect(address).ok();
        stream.is_some()
    });
    stream.unwrap()
}

/// Sets the descriptor limit of this process and returns the hard limit.
fn allow_descriptors(number: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    setrlimit(Resource::Nofile, Rlimit { current: Some(number.min(most)), ..limit }).unwrap();
    most
}
