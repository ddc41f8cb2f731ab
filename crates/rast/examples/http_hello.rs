//! `http-hello`: a web server that answers each request with a greeting, by hyper on
//! `rast::executor`.
//!
//! ```console
//! cargo run --release --example http-hello --features executor,hyper -- 127.0.0.1:8080
//! curl http://127.0.0.1:8080/Ada
//! ```
//!
//! An optional second argument limits the time in which a client must send the head of a request,
//! in milliseconds.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use rast::alloc::RastAlloc;
use rast::executor::io::{TcpListener, TcpStream};
use rast::executor::{Handle, Runtime, sleep, spawn};

#[global_allocator]
static GLOBAL: RastAlloc = RastAlloc;

/// Greets what the path names.
async fn hello(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let greeting = match request.uri().path().trim_start_matches('/') {
        "" => "Hello, world!\n".into(),
        name => format!("Hello, {name}!\n"),
    };
    Ok(Response::new(greeting))
}

/// Serves one connection until its end. An error is the client's: it left, was silent, or sent no
/// HTTP.
async fn serve(stream: TcpStream, patience: Duration, timer: Handle) {
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(timer).header_read_timeout(patience);
    if let Err(error) = http.serve_connection(stream, service_fn(hello)).await {
        eprintln!("http-hello: {error}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());
    let patience = arguments.next().map_or(Ok(30_000), |text| text.parse())?;
    let patience = Duration::from_millis(patience);
    let runtime = Runtime::new()?;
    let timer = runtime.handle().clone();
    runtime.block_on(async {
        let listener = TcpListener::bind(address.as_str())?;
        println!("http-hello listens on {}", listener.local_addr()?);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => spawn(serve(stream, patience, timer.clone())).detach(),
                // Out of descriptors, or a client that is gone already.
                Err(error) => {
                    eprintln!("http-hello: {error}");
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
    })
}
