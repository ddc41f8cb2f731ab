//! Iterators over the messages of a lane, for threads.

use core::iter::{self, FusedIterator};

use crate::egress::{EgressReceiver, Wake};
use crate::shared_receiver::SharedReceiver;

/// The messages of a lane, until the graph has ended and everything was taken. `next` blocks until
/// a message is queued.
///
/// Made by `iter` of a receiver, or by a `for` loop over a receiver or a reference to it. After the
/// end, `try_recv` of the receiver says what ended the graph.
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is advanced"]
pub struct Messages<R> {
    receiver: R,
}

macro_rules! messages {
    ($($receiver:ty),+ $(,)?) => {$(
        impl<M, W: Wake> Iterator for Messages<$receiver> {
            type Item = M;

            fn next(&mut self) -> Option<M> {
                self.receiver.recv().ok()
            }
        }

        impl<M, W: Wake> FusedIterator for Messages<$receiver> {}

        impl<M, W: Wake> IntoIterator for $receiver {
            type Item = M;
            type IntoIter = Messages<Self>;

            fn into_iter(self) -> Messages<Self> {
                Messages { receiver: self }
            }
        }
    )+};
}

messages! {
    EgressReceiver<M, W>,
    &mut EgressReceiver<M, W>,
    SharedReceiver<M, W>,
    &SharedReceiver<M, W>,
}

impl<M, W: Wake> EgressReceiver<M, W> {
    /// Returns a blocking iterator over the messages, until the graph has ended and everything was
    /// taken. A `for` loop over the receiver does the same.
    ///
    /// ```
    /// # use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
    /// # struct Echo;
    /// # graph! {
    /// #     graph App {
    /// #         processors { echo: Echo }
    /// #         edges { ingress -> echo: u64; echo -> egress: u64 [cap = 8]; }
    /// #     }
    /// # }
    /// # impl Process<App> for Echo {}
    /// # impl Receive<App, Ingress, u64> for Echo {
    /// #     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    /// #         cx.to::<Egress>().send(number);
    /// #     }
    /// # }
    /// use rast_msgpass::{EndedBy, TryRecvError};
    ///
    /// let app = App::builder(Echo).start()?;
    /// let mut echoes = app.egress::<Echo, u64>(0);
    /// let reader = std::thread::spawn(move || {
    ///     let sum: u64 = echoes.iter().sum();
    ///     (sum, echoes.try_recv())
    /// });
    /// let numbers = app.ingress::<Echo, u64>();
    /// (1..=100).for_each(|number| numbers.send(number).unwrap());
    /// app.drain(std::time::Duration::from_secs(10))?;
    /// let ended = Err(TryRecvError::Closed(EndedBy::Drain));
    /// assert_eq!(reader.join().unwrap(), (5_050, ended));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&mut self) -> Messages<&mut Self> {
        self.into_iter()
    }

    /// Returns an iterator over the messages that are queued. It never waits, and ends when the
    /// lane is empty.
    pub fn try_iter(&mut self) -> impl Iterator<Item = M> {
        iter::from_fn(|| self.try_recv().ok())
    }
}

impl<M, W: Wake> SharedReceiver<M, W> {
    /// Returns a blocking iterator over the messages that this receiver takes, until the graph has
    /// ended and everything was taken. A `for` loop over the receiver does the same.
    pub fn iter(&self) -> Messages<&Self> {
        self.into_iter()
    }

    /// Returns an iterator over the messages that are queued. It waits for nothing but the lock,
    /// and ends when the lane is empty.
    pub fn try_iter(&self) -> impl Iterator<Item = M> {
        iter::from_fn(|| self.try_recv().ok())
    }
}
