//! Retired instances, and the processors that watch them.
//!
//! ```text
//!   Deaths   log [ shard 3 | shard 7 | .. ]     grows by one for each instance that retires
//!            watchers [ shard 0, .. ]           woken then
//!   Core     watched [ (processor, seen), .. ]  how much of the log was read for each
//! ```
//!
//! One lock protects both lists, so either an instance that retires finds a watcher, or the watcher
//! finds the instance in the log. Each watched processor has its own position in the log, so
//! earlier retirements are reported as well.

use crate::cx::{Core, Cx};
use crate::graph::{Graph, Node};
use crate::primitive::sync::Mutex;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::sharder::ShardId;
use crate::shared::Shared;

/// The instances of a graph that retired.
#[derive(Default)]
pub(crate) struct Deaths {
    lists: Mutex<Lists>,
    /// The length of the log.
    count: AtomicUsize,
}

#[derive(Default)]
struct Lists {
    log: Vec<usize>,
    watchers: Vec<usize>,
}

/// A retired instance; for [`Process::on_retired`](crate::Process::on_retired).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retired {
    /// The name of the processor in `graph!`.
    pub processor: &'static str,
    /// The index of its replica.
    pub replica: usize,
}

impl Retired {
    /// Returns `true` if it is a replica of `P`.
    #[must_use]
    pub fn is<G: Node<P>, P>(&self) -> bool {
        let info = <G as Node<P>>::END
            .processor()
            .map(|node| &G::PROCESSORS[node]);
        info.is_some_and(|info| info.name == self.processor)
    }
}

impl Shared {
    /// Records that an instance retired, and wakes its watchers. Only its holder calls it, once.
    #[cold]
    pub(crate) fn retire(&self, shard: usize) {
        self.stats[shard].retired.set(1);
        let mut lists = self.deaths.lists.lock();
        lists.log.push(shard);
        // Relaxed: the log is read under its lock, after the wake-up below.
        self.deaths.count.store(lists.log.len(), Ordering::Relaxed);
        let watchers = lists.watchers.clone();
        drop(lists);
        // Not under a lock: a worker may sleep in user code.
        let handle = self.wakes.0.lock().clone();
        if let Some(handle) = handle {
            for watcher in watchers {
                handle.wake(ShardId::from_index(watcher));
            }
        }
    }
}

impl Core {
    /// Checks whether a watched instance has retired.
    #[inline]
    pub(crate) fn look_for_deaths(&mut self) {
        if !self.watched.is_empty() {
            // Relaxed: the thread that raised it woke this instance afterwards.
            let count = self.shared.deaths.count.load(Ordering::Relaxed);
            self.has_deaths = self.watched.iter().any(|&(_, seen)| seen < count);
        }
    }

    /// Takes the next watched instance that retired.
    #[cold]
    pub(crate) fn next_death(&mut self) -> Option<Retired> {
        let lists = self.shared.deaths.lists.lock();
        for (node, seen) in &mut self.watched {
            let shards = self.shared.shards_of(*node);
            while let Some(shard) = lists.log.get(*seen) {
                *seen += 1;
                if shards.contains(shard) {
                    return Some(Retired {
                        processor: self.shared.processors[*node].name,
                        replica: shard - shards.start,
                    });
                }
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
        let mut lists = core.shared.deaths.lists.lock();
        if core.watched.is_empty() {
            lists.watchers.push(shard);
        }
        core.has_deaths |= !lists.log.is_empty();
        drop(lists);
        core.watched.push((node, 0));
    }
}
