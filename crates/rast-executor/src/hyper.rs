//! hyper on a runtime: a [`Handle`] is hyper's executor and its timer.
//!
//! The sockets of [`io`](crate::io) implement hyper's traits of byte streams, so a connection needs
//! no adapter:
//!
//! ```
//! use hyper::service::service_fn;
//! use hyper::{Request, Response, body::Incoming, server::conn::http1};
//! use rast_executor::io::{TcpListener, TcpStream};
//! use rast_executor::{Handle, Runtime, spawn};
//! use std::convert::Infallible;
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
//!     Ok(Response::new("hello".into()))
//! }
//!
//! let runtime = Runtime::builder().workers(2).build().unwrap();
//! runtime.block_on(async {
//!     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//!     let address = listener.local_addr().unwrap();
//!     let server = spawn(async move {
//!         let (stream, _) = listener.accept().await.unwrap();
//!         let mut http = http1::Builder::new();
//!         http.timer(Handle::current().unwrap());
//!         http.serve_connection(stream, service_fn(hello)).await.unwrap();
//!     });
//!     let client = TcpStream::connect(address).await.unwrap();
//!     let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
//!     client.write_all(request).await.unwrap();
//!     server.await.unwrap();
//!     let mut reply = [0; 15];
//!     client.read_exact(&mut reply).await.unwrap();
//!     assert_eq!(&reply, b"HTTP/1.1 200 OK");
//! });
//! ```

use core::pin::Pin;
use core::time::Duration;
use std::time::Instant;
use std_alloc::boxed::Box;

use hyper::rt;

use crate::runtime::Handle;
use crate::sleep::Sleep;

impl<F> rt::Executor<F> for Handle
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// As [`Handle::spawn`]; the task is detached.
    fn execute(&self, future: F) {
        self.spawn(future).detach();
    }
}

/// Sleeps by the clock of the runtime. hyper's deadlines are of std's clock, which determines the
/// time that is left.
impl rt::Timer for Handle {
    fn sleep(&self, span: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.sleep_for(span))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        rt::Timer::sleep(self, deadline.saturating_duration_since(Instant::now()))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(mut sleep) => {
                let next = self.sleep_for(deadline.saturating_duration_since(Instant::now()));
                sleep.reset(next.deadline());
            }
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl rt::Sleep for Sleep {}
