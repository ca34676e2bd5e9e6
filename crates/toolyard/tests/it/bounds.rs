//! The limits of the listener: each is a setting, and each refuses with a clear error.

use crate::support::{Client, Kind, RunAs, Server, TIMEOUT, Yard, eventually, marker, processes_with};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

fn serve(settings: &str) -> (Yard, Server) {
    serve_as(RunAs::CurrentUser, settings)
}

fn serve_as(run_as: RunAs, settings: &str) -> (Yard, Server) {
    let yard = Yard::of(run_as);
    yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", format!("[server]\n{settings}\n"));
    let server = yard.serve();
    (yard, server)
}

#[test]
fn headers_are_bounded_in_size_and_number() {
    let (_yard, server) = serve("max_header = 8192\nmax_headers = 20");
    let long = "x".repeat(10_000);
    assert_eq!(server.client().send("GET", "/healthz", &[("long", &long)], b"").status, 431);
    let fits = "x".repeat(6_000);
    assert_eq!(server.client().send("GET", "/healthz", &[("long", &fits)], b"").status, 200);
    let names: Vec<String> = (0..21).map(|number| format!("h-{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(server.client().send("GET", "/healthz", &many, b"").status, 431);
    assert_eq!(server.client().send("GET", "/healthz", &many[..10], b"").status, 200);
}

#[test]
fn a_body_over_the_bound_is_413() {
    let (_yard, server) = serve("max_body = 1000");
    assert_eq!(server.post("tool", vec![b' '; 1001]).status, 413);
    assert_eq!(server.post("tool", "{}").status, 200);
}

#[test]
fn one_address_cannot_take_every_connection() {
    let (_yard, server) = serve("max_connections_per_peer = 3");
    let mut held: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut held {
        assert_eq!(client.send("GET", "/healthz", &[], b"").status, 200);
    }
    let refused = server.get("/healthz");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    let why = String::from_utf8(refused.body).unwrap();
    assert!(
        why.contains("too many connections from this address") && why.contains("max_connections_per_peer"),
        "{why}"
    );
    // Every address of 127.0.0.0/8 is local, so the second client uses another one.
    assert_eq!(from_another_address(&server.address), "HTTP/1.1 200 OK");
    drop(held);
    eventually("the connections are free again", TIMEOUT, || {
        Client::connect(&server.address).send("GET", "/healthz", &[], b"").status == 200
    });
}

#[test]
fn connections_without_a_request_are_closed_for_new_ones() {
    for settings in ["max_connections_per_peer = 3", "max_connections = 3\nmax_connections_per_peer = 3"] {
        let (_yard, server) = serve(settings);
        let mut speaking = server.client();
        assert_eq!(speaking.send("GET", "/healthz", &[], b"").status, 200);
        let mut half_open: Vec<TcpStream> =
            (0..10).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
        for stream in &mut half_open {
            // Fails on connections that are already closed.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: ");
        }
        assert_eq!(server.get("/healthz").status, 200, "{settings}");
        assert_eq!(speaking.send("GET", "/healthz", &[], b"").status, 200, "{settings}: it was there first");
        half_open[0].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let cut = half_open[0].read(&mut [0; 100]);
        assert!(matches!(&cut, Ok(0)) || cut.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    }
}

#[test]
fn concurrent_calls_are_limited_and_the_next_one_is_refused() {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "hang", &["/bin/sh", "-c", "sleep 300", &marker], json!({}));
    yard.shell(Kind::Cli, "tool", "echo 1").file("toolyard.toml", "[limits]\nmax_calls = 1\n");
    let server = yard.serve();
    let mut client = server.client();
    client.write("POST", "/mcp/tool/hang", &[], b"{}").unwrap();
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    let refused = server.post("tool", "{}");
    let error = &refused.json()["error"];
    assert_eq!((refused.status, &error["details"]["kind"]), (503, &json!("busy")));
    assert!(error["details"]["hint"].as_str().unwrap().contains("max_calls"), "{error}");
    drop(client);
    eventually("the permit is free again", TIMEOUT, || server.post("tool", "{}").status == 200);
    assert!(
        yard.records().iter().any(|record| record.to_string().contains("limit of 1 concurrent calls")),
        "it is on record"
    );
}

#[test]
fn half_a_request_and_an_idle_connection_are_cut() {
    let (_yard, server) = serve("header_timeout = \"500ms\"");
    for said in [&b""[..], b"GET / HTTP/1.1\r\nhost: ", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        let started = Instant::now();
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(said).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        let took = started.elapsed();
        assert!((Duration::from_millis(400)..Duration::from_secs(5)).contains(&took), "{said:?}: {took:?}");
    }
}

#[test]
fn with_the_defaults_slow_clients_are_disconnected() {
    let (yard, server) = serve("");
    yard.shell(Kind::Cli, "large", "printf '\"'; head -c 200000 /dev/zero | tr '\\0' x; printf '\"'");
    eventually("the tool is there", TIMEOUT, || server.post("large", "{}").status == 200);
    let folder = format!("/proc/{}/fd", server.pid());
    let is_socket = |entry: &std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path());
        target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    // Not every descriptor: those of sandboxes are pooled.
    let open = || std::fs::read_dir(&folder).unwrap().flatten().filter(is_socket).count();
    let (files, memory) = (open(), server.memory_kb());
    let started = Instant::now();
    let slow = [
        "POST /mcp/tool/large HTTP/1.1\r\nhost: local",
        "POST /mcp/tool/large HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
        "POST /mcp/tool/large HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}",
    ];
    // The last one requests more than its window holds and reads nothing.
    let mut held: Vec<TcpStream> = Vec::new();
    for said in slow.iter().cycle().take(80) {
        let mut stream = crate::flood::connect_with_small_buffers(&server.address);
        stream.write_all(said.as_bytes()).unwrap();
        held.push(stream);
    }
    eventually("they are there", TIMEOUT, || open() >= files + 60);
    eventually("they are cut", Duration::from_secs(90), || open() <= files + 4);
    eprintln!(
        "80 slow clients were cut after {:?}; memory {memory} kB before, {} kB after",
        started.elapsed(),
        server.memory_kb()
    );
    assert!(server.memory_kb() < memory + 16 * 1024);
    assert_eq!(server.post("tool", "{}").status, 200);
}

/// A body whose framing is broken is not a large one.
#[test]
fn a_body_with_broken_chunks_is_400() {
    for run_as in RunAs::all() {
        let (_yard, server) = serve_as(run_as, "max_body = 1000");
        let send = |path: &str, chunks: &str| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let head = "host: localhost\r\naccept: application/json, text/event-stream\r\n\
            content-type: application/json\r\ntransfer-encoding: chunked";
            write!(stream, "POST {path} HTTP/1.1\r\n{head}\r\n\r\n{chunks}").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let large = format!("3e9\r\n{}\r\n0\r\n\r\n", " ".repeat(1001));
        for path in ["/mcp/tool/tool", "/v1/tools/tool", "/mcp"] {
            for broken in ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n", "2;\n{}\r\n0\r\n\r\n"] {
                let answer = send(path, broken);
                assert!(answer.starts_with("HTTP/1.1 400 Bad Request"), "{path}, {broken:?}: {answer}");
                assert!(answer.contains("the request body is broken or incomplete"), "{path}: {answer}");
            }
            assert!(send(path, &large).starts_with("HTTP/1.1 413 "), "{path}");
        }
        assert!(send("/mcp/tool/tool", "2\r\n{}\r\n0\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
    }
}

/// The status line of a request that comes from 127.0.0.2.
fn from_another_address(address: &str) -> String {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let place = |last, port| SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), port);
    let mut stream = TcpStream::from(socket(AddressFamily::INET, SocketType::STREAM, None).unwrap());
    bind(&stream, &place(2, 0)).unwrap();
    connect(&stream, &place(1, port)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_head_that_other_readers_see_differently_is_refused() {
    for run_as in RunAs::all() {
        let (_yard, server) = serve_as(run_as, "");
        let send = |request: &str| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            // A connection that is not closed by the server ends with the time-out.
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let close = "connection: close\r\n";
        let get = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{close}");
        assert!(send(&format!("{get}origin: http://localhost\r\n\r\n")).starts_with("HTTP/1.1 200 OK"));
        let large = format!("{get}x: {}\r\n\r\n", "y".repeat(60_000));
        assert!(send(&large).starts_with("HTTP/1.1 200 OK"), "within the bound");
        let origins = "origin: http://localhost\r\norigin: http://evil.example\r\n";
        for (request, status, why) in [
            (format!("{get}{origins}\r\n"), "403 Forbidden", "there is more than one Origin header"),
            (
                get.replace("\r\n", "\n") + "\n",
                "400 Bad Request",
                "a line of the request head ends with LF alone",
            ),
            (
                format!("{get}a: b\nc: d\r\n\r\n"),
                "400 Bad Request",
                "a line of the request head ends with LF alone",
            ),
            (format!("{get}x: {}\r\n\r\n", "y".repeat(90_000)), "431 Request Header Fields Too Large", ""),
        ] {
            let answer = send(&request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(why), "{answer}");
            assert!(answer.contains(close), "the connection is not used again: {answer}");
        }
        // What is sent before the answer came is not read as a request.
        let pipelined = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2);
        assert_eq!(send(&pipelined).matches("HTTP/1.1 ").count(), 1);
    }
}
