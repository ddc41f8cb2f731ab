//! `kv` as a process: what its clients see, command by command.

use crate::kv_support::{Kv, command};
use redis::{Commands, RedisResult, Value};

#[test]
fn the_client_crate_is_served() -> RedisResult<()> {
    let kv = Kv::start(&[]);
    let client = redis::Client::open(kv.url())?;
    let mut con = client.get_connection()?;

    let () = con.set("name", "rast")?;
    assert_eq!(con.get::<_, String>("name")?, "rast");
    assert_eq!(con.get::<_, Option<String>>("nothing")?, None);
    assert_eq!(con.incr::<_, _, i64>("count", 5)?, 5);
    assert_eq!(con.decr::<_, _, i64>("count", 7)?, -2);
    assert_eq!(con.append::<_, _, i64>("name", " kv")?, 7);
    assert_eq!(con.strlen::<_, i64>("name")?, 7);
    assert!(con.set_nx::<_, _, bool>("fresh", 1)?);
    assert!(!con.set_nx::<_, _, bool>("fresh", 2)?);

    let pairs: Vec<(String, String)> = (0..500)
        .map(|n| (format!("key:{n}"), format!("value:{n}")))
        .collect();
    let () = con.mset(&pairs)?;
    let keys: Vec<&String> = pairs.iter().map(|(key, _)| key).collect();
    let values: Vec<String> = con.mget(&keys)?;
    assert!(
        values
            .iter()
            .zip(&pairs)
            .all(|(found, (_, set))| found == set)
    );
    assert_eq!(con.exists::<_, i64>(&keys)?, 500);
    let mut found: Vec<String> = con.keys("key:1?")?;
    found.sort();
    assert_eq!(
        found,
        (10..20).map(|n| format!("key:{n}")).collect::<Vec<_>>()
    );
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut con)?, 503);
    assert_eq!(con.del::<_, i64>(&keys[..100])?, 100);
    assert_eq!(con.unlink::<_, i64>(&keys[50..150])?, 50);

    assert!(con.expire::<_, bool>("name", 100)?);
    assert!((99..=100).contains(&con.ttl::<_, i64>("name")?));
    assert!((99_000..=100_000).contains(&con.pttl::<_, i64>("name")?));
    assert!(con.persist::<_, bool>("name")?);
    assert_eq!(con.ttl::<_, i64>("name")?, -1);
    assert_eq!(con.ttl::<_, i64>("nothing")?, -2);
    let () = con.pset_ex("short", "v", 1)?;
    crate::kv_support::until("the key expires", || {
        matches!(con.get::<_, Option<String>>("short"), Ok(None))
    });

    let wrong = con
        .incr::<_, _, i64>("name", 1)
        .expect_err("a text is no number");
    assert!(
        wrong
            .to_string()
            .contains("value is not an integer or out of range"),
        "{wrong}"
    );

    let (ok, echo, values): (String, String, Vec<Option<i64>>) = redis::pipe()
        .cmd("SET")
        .arg("a")
        .arg(1)
        .cmd("ECHO")
        .arg("hi")
        .cmd("MGET")
        .arg("a")
        .arg("none")
        .query(&mut con)?;
    assert_eq!(
        (ok.as_str(), echo.as_str(), values),
        ("OK", "hi", vec![Some(1), None])
    );

    let hello: Value = redis::cmd("HELLO").arg(2).query(&mut con)?;
    assert!(matches!(hello, Value::Array(fields) if fields.len() == 14));
    let number: i64 = redis::cmd("COMMAND").arg("COUNT").query(&mut con)?;
    let table: Vec<Value> = redis::cmd("COMMAND").query(&mut con)?;
    assert_eq!(table.len() as i64, number);
    let () = redis::cmd("FLUSHALL").query(&mut con)?;
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut con)?, 0);
    Ok(())
}

#[test]
fn expired_keys_leave_without_being_asked_for() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    for number in 0..300 {
        raw.send(format!("SET k{number} v PX 1\r\n").as_bytes());
        raw.expect("+OK\r\n");
    }
    crate::kv_support::until("all keys are gone", || {
        raw.send(b"DBSIZE\r\n");
        raw.line() == ":0"
    });
    assert_eq!(kv.figure("expired_keys"), 300);
}

#[test]
fn a_script_gets_the_replies_of_redis() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    let script: &[(&[u8], &str)] = &[
        (b"PING\r\n", "+PONG\r\n"),
        (b"ping \"a b\"\r\n", "$3\r\na b\r\n"),
        (
            b"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n",
            "$4\r\n\r\n\r\n\r\n",
        ),
        (b"\r\n\r\n  \r\nPING\n", "+PONG\r\n"),
        (b"SET k 'it\\'s'\r\n", "+OK\r\n"),
        (b"GET k\r\n", "$4\r\nit's\r\n"),
        (b"SET k v NX\r\n", "$-1\r\n"),
        (b"SET k 10 XX GET\r\n", "$4\r\nit's\r\n"),
        (b"INCRBY k 5\r\n", ":15\r\n"),
        (b"DECR k\r\n", ":14\r\n"),
        (b"TYPE k\r\n", "+string\r\n"),
        (b"TYPE none\r\n", "+none\r\n"),
        (b"SELECT 0\r\n", "+OK\r\n"),
        (b"SELECT 1\r\n", "-ERR DB index is out of range\r\n"),
        (
            b"GET\r\n",
            "-ERR wrong number of arguments for 'get' command\r\n",
        ),
        (
            b"NOPE a b\r\n",
            "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' \r\n",
        ),
        (
            b"SET k v EX 0\r\n",
            "-ERR invalid expire time in 'set' command\r\n",
        ),
        (b"SET k v WHAT\r\n", "-ERR syntax error\r\n"),
        (b"SET k 9223372036854775807\r\n", "+OK\r\n"),
        (
            b"INCR k\r\n",
            "-ERR increment or decrement would overflow\r\n",
        ),
        (b"APPEND k x\r\n", ":20\r\n"),
        (
            b"INCR k\r\n",
            "-ERR value is not an integer or out of range\r\n",
        ),
        (b"CLIENT GETNAME\r\n", "$-1\r\n"),
        (b"CLIENT SETNAME me\r\n", "+OK\r\n"),
        (b"CLIENT GETNAME\r\n", "$2\r\nme\r\n"),
        (b"CLIENT SETINFO lib-name x\r\n", "+OK\r\n"),
        (
            b"CONFIG GET maxmemory-pol*\r\n",
            "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n",
        ),
        (b"EXPIRE k -1\r\n", ":1\r\n"),
        (b"EXISTS k k\r\n", ":0\r\n"),
        (b"MSET a 1 b 2 c 3\r\n", "+OK\r\n"),
        (b"MGET c none a\r\n", "*3\r\n$1\r\n3\r\n$-1\r\n$1\r\n1\r\n"),
        (b"EXISTS a a b\r\n", ":3\r\n"),
        (b"DEL a b none\r\n", ":2\r\n"),
        (b"KEYS *\r\n", "*1\r\n$1\r\nc\r\n"),
        (b"FLUSHDB\r\n", "+OK\r\n"),
        (b"DBSIZE\r\n", ":0\r\n"),
    ];
    // Once step by step, once all at a time.
    for (sent, expected) in script {
        raw.send(sent);
        raw.expect(expected);
    }
    let mut raw = kv.connect();
    raw.send(
        &script
            .iter()
            .map(|(sent, _)| *sent)
            .collect::<Vec<_>>()
            .concat(),
    );
    raw.send(b"QUIT\r\nPING\r\n");
    let replies: String = script.iter().map(|(_, reply)| *reply).collect();
    assert_eq!(raw.rest(), replies + "+OK\r\n");
}

#[test]
fn replies_keep_the_order_of_pipelined_requests() {
    let kv = Kv::start(&["--workers", "2", "--max-in-flight", "64"]);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let mut raw = kv.connect();
            scope.spawn(move || {
                let keys: Vec<String> = (0..200).map(|n| format!("{client}:{n}")).collect();
                let mut sent = String::new();
                let mut expected = String::new();
                for round in 0..100 {
                    // Slow and fast commands in turn: all partitions, one, none.
                    sent.push_str("MSET");
                    for key in &keys {
                        sent.push_str(&format!(" {key} {round}"));
                    }
                    sent.push_str(&format!("\r\nGET {client}:7\r\nECHO {round}\r\n"));
                    sent.push_str(&format!("INCR n{client}\r\nMGET {}\r\n", keys.join(" ")));
                    sent.push_str(&format!("EXISTS {client}:19?\r\n"));
                    let text = round.to_string();
                    let bulk = format!("${}\r\n{text}\r\n", text.len());
                    expected.push_str(&format!("+OK\r\n{bulk}{bulk}:{}\r\n*200\r\n", round + 1));
                    expected.push_str(&bulk.repeat(200));
                    expected.push_str(":0\r\n");
                }
                let mut writer = raw.stream.try_clone().expect("a second handle");
                let sender = std::thread::spawn(move || {
                    std::io::Write::write_all(&mut writer, sent.as_bytes()).expect("kv reads");
                });
                raw.expect(&expected);
                sender.join().expect("the sender ends");
            });
        }
    });
}

#[test]
fn a_malformed_frame_ends_its_connection_alone() {
    let kv = Kv::start(&[]);
    let mut good = kv.connect();
    let cases: [(&[u8], &str); 7] = [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*2000000\r\n", "invalid multibulk length"),
        (b"*1\r\n$9999999999\r\n", "invalid bulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\nk\r\n", "expected '$', got 'k'"),
        (b"SET k \"v\r\n", "unbalanced quotes in request"),
        (&[b'x'; 70_000], "too big inline request"),
    ];
    for (sent, words) in cases {
        let mut bad = kv.connect();
        bad.send(b"SET before 1\r\nGET before\r\n");
        bad.send(sent);
        let reply = format!("+OK\r\n$1\r\n1\r\n-ERR Protocol error: {words}\r\n");
        assert_eq!(bad.rest(), reply);
        good.send(b"PING\r\n");
        good.expect("+PONG\r\n");
    }
    assert_eq!(kv.figure("protocol_errors"), 7);
}

#[test]
fn commands_before_a_half_close_are_answered() {
    let kv = Kv::start(&[]);
    let mut raw = kv.connect();
    let many = "INCR n\r\n".repeat(5000);
    raw.send(many.as_bytes());
    raw.send(b"GET half");
    raw.stream
        .shutdown(std::net::Shutdown::Write)
        .expect("a half close");
    let expected: String = (1..=5000).map(|number| format!(":{number}\r\n")).collect();
    assert_eq!(raw.rest(), expected);
}

#[test]
fn connections_past_the_limit_are_refused() {
    let kv = Kv::start(&["--max-connections", "3"]);
    let mut three: Vec<_> = (0..3).map(|_| kv.connect()).collect();
    for raw in &mut three {
        raw.send(b"PING\r\n");
        raw.expect("+PONG\r\n");
    }
    assert_eq!(
        kv.connect().rest(),
        "-ERR max number of clients reached\r\n"
    );
    drop(three.pop());
    crate::kv_support::until("there is room again", || {
        let mut raw = kv.connect();
        std::io::Write::write_all(&mut raw.stream, b"PING\r\n").is_ok() && {
            let mut start = [0; 5];
            std::io::Read::read_exact(&mut raw.stream, &mut start).is_ok() && &start == b"+PONG"
        }
    });
}

#[test]
fn a_taken_port_is_said_with_its_flag() {
    let kv = Kv::start(&[]);
    let port = kv.address.port().to_string();
    let output = command(&["--port", &port]).output().expect("kv runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains(&format!("port {port} on 127.0.0.1 is taken")),
        "{error}"
    );
    assert!(error.contains("--port"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn bad_arguments_are_said_and_help_lists_the_limits() {
    let output = command(&["--workers", "none"]).output().expect("kv runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        error,
        "kv: --workers takes a number from 1 to 64, not 'none'\n"
    );
    let output = command(&["--help"]).output().expect("kv runs");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    for flag in [
        "--max-connections",
        "--max-frame",
        "--max-backlog",
        "--maxmemory",
    ] {
        assert!(text.contains(flag), "{text}");
    }
}
