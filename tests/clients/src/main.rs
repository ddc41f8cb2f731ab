//! redis-rs and fred with their defaults, and in both versions of the protocol, against a server
//! on 127.0.0.1; the port is the argument.

use std::process::ExitCode;

use fred::prelude::{Builder, ClientLike, Config, KeysInterface};
use fred::types::RespVersion;
use redis::Commands;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let Some(port) = std::env::args().nth(1) else {
        eprintln!("usage: clients PORT");
        return ExitCode::from(2);
    };
    for (name, run) in [
        ("redis-rs", blocking as fn(&str) -> Result<(), Failure>),
        ("fred", waiting),
    ] {
        if let Err(error) = run(&port) {
            eprintln!("{name}: {error}");
            return ExitCode::FAILURE;
        }
        println!("{name}: passed");
    }
    ExitCode::SUCCESS
}

/// A value of every byte, and one of 1 MiB.
fn values() -> [Vec<u8>; 2] {
    let all: Vec<u8> = (0..=255).collect();
    let large = all.repeat(4096);
    [all, large]
}

fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    let mut line = format!("{found:?} instead of {expected:?}");
    line.truncate(400);
    Err(line.into())
}

fn refused<T>(reply: Result<T, impl std::fmt::Display>, words: &str) -> Result<(), Failure> {
    match reply {
        Err(error) if error.to_string().contains(words) => Ok(()),
        Err(error) => Err(format!("`{error}` instead of `{words}`").into()),
        Ok(_) => Err(format!("a reply instead of `{words}`").into()),
    }
}

fn blocking(port: &str) -> Result<(), Failure> {
    for options in ["", "?protocol=resp3"] {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/{options}"))?;
        let mut con = client.get_connection()?;
        let () = con.set("rs:key", "value")?;
        same(con.get::<_, String>("rs:key")?, "value".to_owned())?;
        same(con.get::<_, Option<String>>("rs:none")?, None)?;
        same(con.incr::<_, _, i64>("rs:n", 1)?, 1)?;
        same(con.expire::<_, bool>("rs:key", 100)?, true)?;
        for value in values() {
            let () = con.set("rs:bytes", &value)?;
            same(con.get::<_, Vec<u8>>("rs:bytes")?, value)?;
        }
        let mut pipe = redis::pipe();
        pipe.incr("rs:n", 1).get("rs:n").get("rs:none");
        let replies: (i64, String, Option<String>) = pipe.query(&mut con)?;
        same(replies, (2, "2".to_owned(), None))?;
        refused(con.incr::<_, _, i64>("rs:key", 1), "not an integer")?;
        refused(
            redis::cmd("NOPE").query::<i64>(&mut con),
            "unknown command 'NOPE'",
        )?;
        same(con.del::<_, i64>(&["rs:key", "rs:n", "rs:bytes"])?, 3)?;
    }
    Ok(())
}

fn waiting(port: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for version in [None, Some(RespVersion::RESP3)] {
        let mut config = Config::from_url(&format!("redis://127.0.0.1:{port}"))?;
        if let Some(version) = version {
            config.version = version;
        }
        runtime.block_on(one_fred(config))?;
    }
    Ok(())
}

async fn one_fred(config: Config) -> Result<(), Failure> {
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    let () = client.set("fred:key", "value", None, None, false).await?;
    same(
        client.get::<String, _>("fred:key").await?,
        "value".to_owned(),
    )?;
    same(client.get::<Option<String>, _>("fred:none").await?, None)?;
    same(client.incr::<i64, _>("fred:n").await?, 1)?;
    same(client.expire::<i64, _>("fred:key", 100, None).await?, 1)?;
    for value in values() {
        let () = client
            .set("fred:bytes", value.as_slice(), None, None, false)
            .await?;
        same(client.get::<Vec<u8>, _>("fred:bytes").await?, value)?;
    }
    let pipeline = client.pipeline();
    let () = pipeline.incr("fred:n").await?;
    let () = pipeline.get("fred:n").await?;
    let replies: (i64, String) = pipeline.all().await?;
    same(replies, (2, "2".to_owned()))?;
    refused(client.incr::<i64, _>("fred:key").await, "not an integer")?;
    let nope = fred::cmd!("NOPE");
    let reply = client.custom::<String, String>(nope, Vec::new()).await;
    refused(reply, "unknown command 'NOPE'")?;
    let keys = vec!["fred:key", "fred:n", "fred:bytes"];
    same(client.del::<i64, _>(keys).await?, 3)?;
    client.quit().await?;
    Ok(())
}
