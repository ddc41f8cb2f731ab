//! Programs as they are written, with `RastAlloc` as their allocator: a document, a set of
//! expressions, a sort, a server.
//!
//! Each checks its own results, then that its memory was freed when it had ended.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use rast_alloc::RastAlloc;
use regex_automata::PatternSet;
use regex_automata::meta::Regex;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// What the harness, the runtime and tables that are made once may keep.
const SLACK_BYTES: usize = 256 * 1024;

/// Runs a program alone; fails unless it took at least so many blocks and gave its memory back.
fn run(blocks: u64, program: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone: MutexGuard<'_, ()> = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let start = RastAlloc::stats();
    program();
    let end = RastAlloc::stats();
    println!("{start} / {end}");
    assert!(end.allocations - start.allocations >= blocks, "{end}");
    let kept = end.bytes_current.saturating_sub(start.bytes_current);
    assert!(kept <= SLACK_BYTES, "{kept} bytes did not come back");
}

/// A number for each `n` that looks like chance, the same in each run.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
    (n ^ (n >> 27)).wrapping_mul(0x81da_def4_bc2d_d44d) ^ (n >> 33)
}

fn word(n: u64) -> String {
    let length = 3 + mixed(n) % 12;
    (0..length)
        .map(|at| char::from(b'a' + (mixed(n * 31 + at) % 26) as u8))
        .collect()
}

#[test]
fn a_large_document_is_parsed_changed_and_dropped() {
    const RECORDS: u64 = 6_000;
    let record = |id: u64| {
        json!({
            "id": id,
            "name": word(id),
            "tags": (0..id % 7).map(|tag| word(id + tag)).collect::<Vec<_>>(),
            "place": { "x": (id % 360) as f64 / 2.0, "y": null, "near": [id, id + 1, { "deep": [[id]] }] },
            "text": word(id).repeat(1 + (mixed(id) % 20) as usize),
        })
    };
    run(80_000, || {
        let text = Value::Array((0..RECORDS).map(record).collect()).to_string();
        assert!(text.len() > 1_200_000, "{}", text.len());
        let mut document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document.to_string(), text);
        // Every third record goes, the others grow: what stays is scattered.
        let records = document.as_array_mut().unwrap();
        records.retain(|record| record["id"].as_u64().unwrap() % 3 != 0);
        for record in records.iter_mut() {
            let id = record["id"].as_u64().unwrap();
            record["tags"].as_array_mut().unwrap().push(json!(id));
            record["more"] = json!({ "word": word(id * 7) });
        }
        // A copy is made and checked elsewhere, and the document is dropped there.
        let copy = thread::spawn(move || {
            let copy = document.clone();
            assert_eq!(copy, document);
            drop(document);
            copy
        });
        let copy = copy.join().unwrap();
        for record in copy.as_array().unwrap() {
            let id = record["id"].as_u64().unwrap();
            assert_eq!(record["name"], word(id));
            assert_eq!(record["place"]["near"][2]["deep"][0][0], id);
            assert_eq!(record["more"]["word"], word(id * 7));
        }
    });
}

#[test]
fn a_set_of_expressions_is_compiled_and_shared() {
    const PATTERNS: u64 = 60;
    let pattern = |n: u64| match n % 4 {
        0 => word(n),
        1 => format!(r"(?i)\b{}\d{{1,4}}\b", word(n)),
        2 => format!("{}(?:{}|{})+", &word(n)[..2], word(n + 1), word(n + 2)),
        _ => format!(r"[{}]+\s+{}\w*", &word(n)[..3], &word(n + 3)[..2]),
    };
    // What each of these must find: the text is made from it.
    let text = |n: u64| match n % 4 {
        0 => format!("-- {} --", word(n)),
        1 => format!("({}42)", word(n).to_uppercase()),
        2 => format!("{}{}{}", &word(n)[..2], word(n + 2), word(n + 1)),
        _ => format!("{}  {}xyz", &word(n)[..1], &word(n + 3)[..2]),
    };
    run(20_000, || {
        let patterns: Vec<String> = (0..PATTERNS).map(pattern).collect();
        let set = Arc::new(Regex::new_many(&patterns).unwrap());
        let workers = [0, 1, 2].map(|id| {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                for n in (id..PATTERNS).chain(0..id) {
                    let mut found = PatternSet::new(set.pattern_len());
                    let text = text(n);
                    set.which_overlapping_matches(&regex_automata::Input::new(&text), &mut found);
                    let wanted = regex_automata::PatternID::must(n as usize);
                    assert!(found.contains(wanted), "{n} in {text}");
                }
                // Each of them alone, too.
                for n in id..id + 20 {
                    let one = Regex::new(&pattern(n)).unwrap();
                    assert!(one.is_match(&text(n)), "{n}");
                    assert!(one.find_iter(&text(n).repeat(20)).count() >= 1);
                }
            })
        });
        // The set is dropped by the thread that comes last.
        drop(set);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Sorts by halves on two threads each, down to short parts; the halves move into new vectors and
/// back.
fn sorted(mut words: Vec<String>, depth: u32) -> Vec<String> {
    if depth == 0 {
        words.sort();
        return words;
    }
    let right = words.split_off(words.len() / 2);
    let right = thread::spawn(move || sorted(right, depth - 1));
    let left = sorted(words, depth - 1);
    let right = right.join().unwrap();
    let mut merged = Vec::new();
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(one), Some(other)) if one <= other => left.next(),
            (Some(_), None) => left.next(),
            _ => right.next(),
        };
        match next {
            // A new string, so that the thread that merges owns what it gives on.
            Some(word) => merged.push(word.as_str().to_owned()),
            None => return merged,
        }
    }
}

#[test]
fn a_parallel_sort() {
    const WORDS: u64 = 40_000;
    run(4 * WORDS, || {
        let words: Vec<_> = (0..WORDS).map(word).collect();
        let mut expected = words.clone();
        let merged = sorted(words, 3);
        expected.sort();
        assert!(merged == expected);
    });
}

/// A length and that many bytes, to be sent at once.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut frame = (bytes.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(bytes);
    frame
}

/// One connection of the server: each frame is a length and that many bytes; the answer has them
/// reversed, and twice.
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let Ok(length) = stream.read_u32().await else {
            return Ok(());
        };
        let mut request = vec![0; length as usize];
        stream.read_exact(&mut request).await?;
        // Made by a task of its own, which another worker may run.
        let answer = tokio::spawn(async move {
            let mut answer: Vec<u8> = request.iter().rev().copied().collect();
            answer.extend_from_within(..);
            answer
        });
        let answer = answer.await?;
        stream.write_all(&framed(&answer)).await?;
    }
}

async fn request(stream: &mut TcpStream, seed: u64) -> std::io::Result<()> {
    let length = match mixed(seed) % 8 {
        0 => mixed(seed + 1) % 40_000,
        _ => mixed(seed + 1) % 1_000,
    };
    let body: Vec<u8> = (0..length).map(|at| (seed + at) as u8).collect();
    stream.write_all(&framed(&body)).await?;
    let twice = stream.read_u32().await? as usize;
    assert_eq!(twice, 2 * body.len());
    let mut answer = vec![0; twice];
    stream.read_exact(&mut answer).await?;
    let (first, second) = answer.split_at(body.len());
    assert!(first == second && first.iter().rev().eq(&body));
    Ok(())
}

#[test]
fn a_server_under_load() {
    const CLIENTS: u64 = 40;
    const REQUESTS: u64 = 60;
    let load = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(3)
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let accepting = tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream));
                }
            });
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    tokio::spawn(async move {
                        let mut stream = TcpStream::connect(address).await.unwrap();
                        for round in 0..REQUESTS {
                            let seed = client * 1000 + round;
                            request(&mut stream, seed).await.unwrap();
                            // Connections come and go.
                            if mixed(seed).is_multiple_of(16) {
                                stream = TcpStream::connect(address).await.unwrap();
                            }
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            accepting.abort();
        });
        // The runtime ends with its threads and whatever tasks there are.
        drop(runtime);
    };
    run(3 * CLIENTS * REQUESTS, || {
        load();
        load();
    });
}
