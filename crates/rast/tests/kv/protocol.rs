//! `kv` as a process: the two versions of the protocol, what clients ask when they
//! connect, and bytes that are no commands.

use crate::kv_support::{Kv, until};
use std::io::{Read, Write};

/// The reply of HELLO to the connection with this number.
fn hello(protocol: u8, number: u64) -> String {
    let head = if protocol == 3 { "%7" } else { "*14" };
    format!(
        "{head}\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n\
         :{protocol}\r\n$2\r\nid\r\n:{number}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n\
         $6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
    )
}

#[test]
fn a_connection_chooses_the_version_of_its_replies() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    raw.send(b"GET k\r\nHELLO 3\r\nGET k\r\nMGET k k\r\nSET k v NX GET\r\nCLIENT GETNAME\r\n");
    raw.expect("$-1\r\n");
    raw.expect(&hello(3, 1));
    raw.expect("_\r\n*2\r\n_\r\n_\r\n_\r\n_\r\n");
    raw.send(b"CONFIG GET databases\r\nCLIENT TRACKINGINFO\r\nCOMMAND INFO nothing\r\n");
    raw.expect("%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n");
    raw.expect(
        "%3\r\n$5\r\nflags\r\n~1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n",
    );
    raw.expect("*1\r\n_\r\n");
    raw.send(b"INFO cluster\r\nCOMMAND DOCS get\r\n");
    raw.expect("=34\r\ntxt:# Cluster\r\ncluster_enabled:0\r\n\r\n");
    raw.expect("%1\r\n$3\r\nget\r\n%3\r\n");
    assert_eq!(raw.line(), "$7");
    // An earlier command keeps the version that it was sent under.
    let mut raw = kv.connect();
    raw.send(b"HELLO 3\r\nGET none\r\nRESET\r\nGET none\r\nHELLO\r\n");
    raw.expect(&hello(3, 2));
    raw.expect("_\r\n+RESET\r\n$-1\r\n");
    raw.expect(&hello(2, 2));
}

#[test]
fn hello_and_auth_answer_as_redis_does() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let cases = [
        ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
        (
            "HELLO x",
            "-ERR Protocol version is not an integer or out of range\r\n",
        ),
        ("HELLO 3 AUTH other x", wrong),
        (
            "HELLO 3 AUTH x",
            "-ERR Syntax error in HELLO option 'AUTH'\r\n",
        ),
        (
            "HELLO 3 SETNAME",
            "-ERR Syntax error in HELLO option 'SETNAME'\r\n",
        ),
        (
            "HELLO 3 WHAT",
            "-ERR Syntax error in HELLO option 'WHAT'\r\n",
        ),
        ("AUTH default x", "+OK\r\n"),
        ("AUTH other x", wrong),
        ("AUTH a b c", "-ERR syntax error\r\n"),
        // None of them has changed the version.
        ("GET none", "$-1\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
    ];
    for (sent, expected) in cases {
        raw.send(format!("{sent}\r\n").as_bytes());
        raw.expect(expected);
    }
    raw.send(b"HELLO 3 AUTH default x SETNAME me\r\nCLIENT GETNAME\r\nRESET\r\nCLIENT GETNAME\r\n");
    raw.expect(&hello(3, 1));
    raw.expect("$2\r\nme\r\n+RESET\r\n$-1\r\n");
}

#[test]
fn http_ends_its_connection_and_carries_nothing_out() {
    let kv = Kv::start(&[]);
    let mut good = kv.connect();
    for sent in [
        "POST / HTTP/1.1\r\nSET stolen 1\r\n",
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\nSET stolen 1\r\n",
        "*2\r\n$5\r\nHOST:\r\n$1\r\na\r\n*3\r\n$3\r\nSET\r\n$6\r\nstolen\r\n$1\r\n1\r\n",
    ] {
        let mut raw = kv.connect();
        raw.send(sent.as_bytes());
        let mut rest = Vec::new();
        // The end may be a reset, if bytes were on their way.
        let _ = raw.stream.read_to_end(&mut rest);
        assert_eq!(String::from_utf8_lossy(&rest), "", "{sent}");
        good.send(b"EXISTS stolen\r\n");
        good.expect(":0\r\n");
    }
    assert_eq!(kv.figure("protocol_errors"), 3);
}

#[test]
fn errors_repeat_the_bytes_that_came() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    raw.send(b"\"fo\\xff\\r\\n\" \xe9 \"a\\x00b\"\r\nCLIENT \xff\r\nSET k v \xff\r\n");
    let mut found = vec![0; 300];
    let expected: &[u8] =
        b"-ERR unknown command 'fo\xff  ', with args beginning with: '\xe9' 'a' \r\n\
        -ERR unknown subcommand '\xff'. Try CLIENT HELP.\r\n-ERR syntax error\r\n";
    found.truncate(expected.len());
    raw.stream.read_exact(&mut found).expect("three errors");
    assert_eq!(found, expected);
    raw.send(b"*1\r\n\xfe");
    let mut rest = Vec::new();
    raw.stream
        .read_to_end(&mut rest)
        .expect("the stream ends in order");
    assert_eq!(rest, b"-ERR Protocol error: expected '$', got '\xfe'\r\n");
}

#[test]
fn an_inline_command_ends_at_a_nul() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    raw.send(b"PING\0 and more\r\nECHO a\0b\r\n\0PING\r\nECHO \"it\" \0\r\n");
    raw.expect("+PONG\r\n$1\r\na\r\n$2\r\nit\r\n");
    // A bulk string holds any byte.
    raw.send(b"*2\r\n$4\r\nECHO\r\n$3\r\na\0b\r\n");
    raw.expect("$3\r\na\0b\r\n");
}

/// The fields of a line of CLIENT LIST.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let value = line
        .split(' ')
        .find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in: {line}"))
}

/// A client's fields, without those that change by themselves: its age, and what it still has to
/// send.
fn lasting(line: &str) -> Vec<&str> {
    let changes = ["age=", "idle=", "obl=", "oll=", "tot-mem="];
    let lasts = |field: &&str| !changes.iter().any(|name| field.starts_with(name));
    line.trim_end().split(' ').filter(lasts).collect()
}

#[test]
fn the_list_of_clients_is_true() {
    let kv = Kv::start(&["--workers", "2"]);
    let mut one = kv.connect();
    one.send(
        b"CLIENT SETNAME one\r\nCLIENT SETINFO LIB-NAME lib\r\nCLIENT SETINFO lib-ver 1.2\r\n",
    );
    one.expect("+OK\r\n+OK\r\n+OK\r\n");
    let mut two = kv.connect();
    two.send(b"HELLO 3 SETNAME two\r\n");
    two.expect(&hello(3, 2));
    two.send(b"CLIENT NO-EVICT ON\r\nCLIENT NO-TOUCH on\r\nGET k\r\n");
    two.expect("+OK\r\n+OK\r\n_\r\n");
    one.send(b"CLIENT LIST\r\n");
    let text = one.bulk();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(field(lines[0], "id"), "1");
    assert_eq!(field(lines[0], "name"), "one");
    assert_eq!(field(lines[0], "lib-name"), "lib");
    assert_eq!(field(lines[0], "lib-ver"), "1.2");
    assert_eq!(field(lines[0], "cmd"), "client|list");
    assert_eq!(field(lines[0], "resp"), "2");
    let address = one.stream.local_addr().expect("an address").to_string();
    assert_eq!(field(lines[0], "addr"), address);
    assert_eq!(field(lines[0], "laddr"), kv.address.to_string());
    assert_eq!(field(lines[1], "name"), "two");
    assert_eq!(field(lines[1], "cmd"), "get");
    assert_eq!(field(lines[1], "flags"), "eT");
    assert_eq!(field(lines[1], "resp"), "3");
    one.send(b"CLIENT LIST ID 2 9\r\nCLIENT LIST TYPE replica\r\nCLIENT INFO\r\n");
    assert_eq!(lasting(&one.bulk()), lasting(lines[1]));
    assert_eq!(one.bulk(), "");
    assert_eq!(field(&one.bulk(), "id"), "1");
    for (sent, words) in [
        ("CLIENT LIST TYPE other", "Unknown client type 'other'"),
        ("CLIENT LIST ID x", "Invalid client ID"),
        ("CLIENT LIST ID", "syntax error"),
        ("CLIENT WHAT", "unknown subcommand 'WHAT'. Try CLIENT HELP."),
        ("CLIENT KILL 1.2.3.4:5", "No such client"),
        ("CLIENT KILL ID 0", "client-id should be greater than 0"),
        ("CLIENT KILL USER me", "No such user 'me'"),
        ("CLIENT KILL ID 1 TYPE", "syntax error"),
        ("CLIENT TRACKING on", "CLIENT TRACKING ON is not supported"),
    ] {
        one.send(format!("{sent}\r\n").as_bytes());
        one.expect(&format!("-ERR {words}\r\n"));
    }
}

#[test]
fn killed_clients_are_closed_by_their_own_processors() {
    let kv = Kv::start(&["--workers", "2"]);
    let mut asking = kv.connect();
    asking.send(b"CLIENT ID\r\n");
    asking.expect(":1\r\n");
    let mut others: Vec<_> = (0..4).map(|_| kv.connect()).collect();
    for (number, raw) in (2..).zip(&mut others) {
        raw.send(b"CLIENT ID\r\n");
        raw.expect(&format!(":{number}\r\n"));
    }
    let address = others[0].stream.local_addr().expect("an address");
    asking.send(format!("CLIENT KILL {address}\r\nCLIENT KILL ID 3\r\n").as_bytes());
    asking.expect("+OK\r\n:1\r\n");
    for raw in &mut others[..2] {
        assert_eq!(raw.rest(), "");
    }
    asking.send(b"CLIENT KILL TYPE normal\r\n");
    asking.expect(":2\r\n");
    // The connection that asks for figures begins after the kill.
    until("the killed ones are gone", || {
        kv.figure("connected_clients") == 2
    });
    let mut last = kv.connect();
    last.send(b"CLIENT KILL TYPE normal SKIPME no\r\n");
    assert_eq!(last.rest(), ":3\r\n");
    assert_eq!(asking.rest(), "");
}

#[test]
fn numbers_at_the_ends_of_their_range_are_refused_or_kept() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    let script = [
        ("SET n 9223372036854775806", "+OK"),
        ("INCR n", ":9223372036854775807"),
        ("INCR n", "-ERR increment or decrement would overflow"),
        ("INCRBY n 1", "-ERR increment or decrement would overflow"),
        (
            "DECRBY n -9223372036854775808",
            "-ERR decrement would overflow",
        ),
        (
            "INCRBY n +1",
            "-ERR value is not an integer or out of range",
        ),
        ("SET n -9223372036854775808", "+OK"),
        ("DECR n", "-ERR increment or decrement would overflow"),
        (
            "EXPIRE n 9223372036854775807",
            "-ERR invalid expire time in 'expire' command",
        ),
        (
            "EXPIRE n -9223372036854775808",
            "-ERR invalid expire time in 'expire' command",
        ),
        (
            "PEXPIRE n 9223372036854775807",
            "-ERR invalid expire time in 'pexpire' command",
        ),
        (
            "SET n 1 PXAT 0",
            "-ERR invalid expire time in 'set' command",
        ),
        (
            "SET n 1 EXAT 9223372036854775807",
            "-ERR invalid expire time in 'set' command",
        ),
        ("TTL n", ":-1"),
        ("EXPIRE n -9223372036854775", ":1"),
        ("EXISTS n", ":0"),
        ("SET n 1 PXAT 1", "+OK"),
        ("EXISTS n", ":0"),
        ("SET n 1", "+OK"),
        ("PEXPIRE n -9223372036854775808", ":1"),
        ("EXISTS n", ":0"),
    ];
    for (sent, expected) in script {
        raw.send(format!("{sent}\r\n").as_bytes());
        assert_eq!(raw.line(), expected, "{sent}");
    }
}

#[test]
fn a_hundred_thousand_pipelined_commands_are_answered() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    let mut writer = raw.stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        writer
            .write_all(&b"INCR n\r\n".repeat(100_000))
            .expect("kv reads");
    });
    let expected: String = (1..=100_000)
        .map(|number| format!(":{number}\r\n"))
        .collect();
    raw.expect(&expected);
    sender.join().expect("the sender ends");
}
