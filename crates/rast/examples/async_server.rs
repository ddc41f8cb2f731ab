//! An async server that feeds a graph: tasks serve connections, the graph keeps the state.
//!
//! `cargo run --release --example async-server --features async,io [ADDRESS]`
//!
//! Each line of a client is a word; the answer is how often all clients have sent it. Without an
//! address, the program runs three clients of its own, and ends after them.

use std::collections::HashMap;
use std::error::Error;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rast::executor::io::{TcpListener, TcpStream};
use rast::executor::{Runtime, sleep, spawn};
use rast::msgpass::{Ask, Cx, Ingress, IngressSender, Process, Receive, graph};

graph! {
    graph App {
        processors { count: [Count; 4] }
        edges { ingress -> count: Ask<String, u64>; }
    }
}

#[derive(Default)]
struct Count(HashMap<String, u64>);
impl Process<App> for Count {}
impl Receive<App, Ingress, Ask<String, u64>> for Count {
    fn receive(&mut self, ask: Ask<String, u64>, _: &mut Cx<'_, App, Self>) {
        let (word, reply) = ask.into_parts();
        let times = self.0.entry(word).or_default();
        *times += 1;
        // An error returns the answer: the client has gone.
        let _ = reply.send(*times);
    }
}

type Counts = IngressSender<App, Count, Ask<String, u64>>;

/// Serves a connection until its end. No thread waits: a task that asks sleeps until its answer.
async fn serve(stream: TcpStream, counts: Counts) -> io::Result<()> {
    let (mut line, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let read = match stream.read(&mut bytes).await? {
            0 => return Ok(()),
            count => &bytes[..count],
        };
        for &byte in read {
            if byte != b'\n' {
                line.push(byte);
                if line.len() > 1_024 {
                    return Err(io::Error::other("a line of over 1,024 bytes"));
                }
                continue;
            }
            let word = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            let key = BuildHasherDefault::<DefaultHasher>::default().hash_one(&word);
            let answer = counts.key(key).ask_async(word).await;
            let times = answer.map_err(|error| io::Error::other(error.to_string()))?;
            stream.write_all(format!("{times}\n").as_bytes()).await?;
        }
    }
}

async fn accept(listener: TcpListener, counts: Counts) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let counts = counts.clone();
                let served = async {
                    if let Err(error) = serve(stream, counts).await {
                        eprintln!("async-server: {error}");
                    }
                };
                spawn(served).detach();
            }
            // Out of descriptors, or a client that is gone already.
            Err(error) => {
                eprintln!("async-server: {error}");
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Sends a word a hundred times, and returns the last answer.
async fn client(address: SocketAddr) -> io::Result<u64> {
    let stream = TcpStream::connect(address).await?;
    let mut last = Vec::new();
    for _ in 0..100 {
        stream.write_all(b"rose\n").await?;
        last.clear();
        while last.last() != Some(&b'\n') {
            let mut bytes = [0; 32];
            match stream.read(&mut bytes).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => last.extend_from_slice(&bytes[..count]),
            }
        }
    }
    String::from_utf8_lossy(&last)
        .trim()
        .parse()
        .map_err(io::Error::other)
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let app = App::builder((0..4).map(|_| Count::default())).start()?;
    let counts = app.ingress::<Count, Ask<String, u64>>();
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
        let at = listener.local_addr()?;
        println!("async-server listens on {at}");
        let server = spawn(accept(listener, counts));
        if address.is_some() {
            server.await?;
            return Ok(());
        }
        let clients: Vec<_> = (0..3).map(|_| spawn(client(at))).collect();
        let mut most = 0;
        for client in clients {
            most = most.max(client.await??);
        }
        assert_eq!(most, 300);
        server.abort();
        Ok::<(), Box<dyn Error>>(())
    })?;
    println!("{}", app.drain(Duration::from_secs(10))?);
    Ok(())
}
