//! Watching the instances of another processor: [`Cx::watch`].
//!
//! ```text
//!   Deaths   log [ shard 3 | shard 7 | .. ]     grows by one for each instance that retires
//!            watchers [ shard 0, .. ]           woken then
//!   Core     watched [ (processor, seen), .. ]  how much of the log was read for each
//! ```
//!
//! An instance has a position in the log for each processor that it watches, so it also learns of
//! earlier retirements.

use crate::cx::Cx;
use crate::deaths::Retired;
use crate::graph::{Graph, Node};
use crate::instance_core::Core;

impl Core {
    /// Checks whether a watched instance has retired.
    #[inline]
    pub(crate) fn look_for_deaths(&mut self) {
        if !self.watched.is_empty() {
            let count = self.shared.deaths.count();
            self.has_deaths = self.watched.iter().any(|&(_, seen)| seen < count);
        }
    }

    /// Takes the next watched instance that retired.
    #[cold]
    pub(crate) fn next_death(&mut self) -> Option<Retired> {
        let shared = &*self.shared;
        for (node, seen) in &mut self.watched {
            let shards = shared.shards_of(*node);
            if let Some(shard) = shared.deaths.next(seen, &shards) {
                return Some(Retired {
                    processor: shared.processors[*node].name,
                    replica: shard - shards.start,
                });
            }
        }
        self.has_deaths = false;
        None
    }
}

impl<G: Graph, P> Cx<'_, G, P> {
    /// Requests [`on_retired`](crate::Process::on_retired) once for each replica of `To` that
    /// retires, or has already retired. A repeated request has no effect. The request outlives a
    /// restart of this processor.
    ///
    /// Takes a lock the first time.
    ///
    /// ```
    /// use rast_msgpass::{Cx, Egress, Ingress, OnPanic, Process, Receive, Retired, graph};
    ///
    /// struct Front;
    /// struct Worker;
    /// graph! {
    ///     graph App {
    ///         processors { front: Front, worker: [Worker; 2] }
    ///         edges {
    ///             ingress -> front: u64;
    ///             front -> worker: u64;
    ///             front -> egress: usize;
    ///         }
    ///     }
    /// }
    /// impl Process<App> for Front {
    ///     fn on_start(&mut self, cx: &mut Cx<'_, App, Self>) {
    ///         cx.watch::<Worker>();
    ///     }
    ///     fn on_retired(&mut self, who: Retired, cx: &mut Cx<'_, App, Self>) {
    ///         assert!(who.is::<App, Worker>());
    ///         cx.to::<Egress>().send(who.replica);
    ///     }
    /// }
    /// impl Receive<App, Ingress, u64> for Front {
    ///     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    ///         cx.to::<Worker>().at(1).send(number);
    ///     }
    /// }
    /// impl Process<App> for Worker {}
    /// impl Receive<App, Front, u64> for Worker {
    ///     fn receive(&mut self, number: u64, _: &mut Cx<'_, App, Self>) {
    ///         assert!(number < 10, "too large");
    ///     }
    /// }
    ///
    /// let app = App::builder(Front, [Worker, Worker]);
    /// let app = app.on_panic_of::<Worker>(OnPanic::Retire).start()?;
    /// let mut retired = app.egress::<Front, usize>(0);
    /// app.ingress::<Front, u64>().send(10)?;
    /// assert_eq!(retired.recv(), Ok(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch<To>(&mut self)
    where
        G: Node<To>,
    {
        let core = self.core();
        let Some(node) = <G as Node<To>>::END.processor() else {
            return;
        };
        if core.watched.iter().any(|&(watched, _)| watched == node) {
            return;
        }
        let shard = core.shard();
        core.has_deaths |= core.shared.deaths.watch(shard);
        core.watched.push((node, 0));
    }
}
