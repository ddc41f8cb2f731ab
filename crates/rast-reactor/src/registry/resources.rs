//! The types of resources of a set of reactors, and their owners.

use core::any::{TypeId, type_name};
use core::fmt;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

use hashbrown::DefaultHashBuilder;
use rast_executor::SharedClock;

use super::owned::{AnyEstate, Estate, Owned};
use super::replica::{Replica, Report, Shared, Typed};
use super::resource::Resource;
use super::table::{Log, Table};
use super::wakers::Wakers;
use crate::epoch::{Follower, Ledger, LongRead, Reader, Writer};
use crate::error::BuildError;
use crate::primitive::Counter;
use crate::primitive::sync::Arc;
use crate::quiet::Quiet;

/// Default limit of replaced memory per owner.
const RETIRED_MAX: usize = 64 << 20;
/// Default time after which an open transaction counts as long.
const LONG: Duration = Duration::from_secs(1);

/// A type of resources.
#[derive(Clone, Copy)]
struct Kind {
    id: TypeId,
    name: &'static str,
    owner: usize,
    table: fn(&Self, &DefaultHashBuilder) -> Typed,
    estate: fn() -> Box<dyn AnyEstate>,
}

/// The types of resources of a set of reactors, with their owners and limits; the argument of
/// [`Builder::resources`](crate::Builder::resources).
///
/// ```
/// use rast_reactor::Reactors;
/// use rast_reactor::registry::{Children, Resource, Resources};
/// use std::time::Duration;
///
/// struct Campaign;
/// impl Resource for Campaign {
///     type Key = u64;
/// }
///
/// let resources = Resources::new()
///     .own::<Campaign>(0)
///     .own::<Children<Campaign>>(0)
///     .retired_max(16 << 20)
///     .long_read(Duration::from_millis(100))
///     .on_long_read(|read| println!("{read:?}"));
/// let reactors = Reactors::builder().number(2).resources(resources).build().unwrap();
/// assert_eq!(reactors.long_reads(1), Some(0));
/// ```
#[must_use = "give it to Builder::resources"]
pub struct Resources {
    kinds: Vec<Kind>,
    retired_max: usize,
    long: Duration,
    report: Option<Report>,
}

impl Resources {
    /// No types.
    pub fn new() -> Self {
        Self {
            kinds: Vec::new(),
            retired_max: RETIRED_MAX,
            long: LONG,
            report: None,
        }
    }

    /// Adds a type: only reactor `owner` changes its resources, and all reactors read them.
    pub fn own<T: Resource>(mut self, owner: usize) -> Self {
        self.kinds.push(Kind {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
            owner,
            table: |kind, hasher| {
                let table = Box::new(Table::<T>::new(hasher.clone()));
                Typed {
                    id: kind.id,
                    owner: kind.owner,
                    address: core::ptr::from_ref(&*table).cast(),
                    table,
                }
            },
            estate: || Box::new(Estate::<T>::new()),
        });
        self
    }

    /// Sets the limit of replaced resources and commits that some reactor may still read, in bytes;
    /// 64 MiB by default. At the limit an owner rejects commits.
    ///
    /// One commit may exceed the limit by the resources that it replaces.
    pub fn retired_max(mut self, bytes: usize) -> Self {
        self.retired_max = bytes;
        self
    }

    /// Sets the time after which an open read transaction counts as long; one second by default.
    /// The time starts at the end of the first poll that leaves the transaction open, by the
    /// reactors' clock.
    pub fn long_read(mut self, limit: Duration) -> Self {
        self.long = limit;
        self
    }

    /// Sets a callback that gets each long transaction once, on its thread and between polls. Its
    /// panics are contained. By default long transactions are only counted.
    pub fn on_long_read(mut self, report: impl Fn(&LongRead<'_>) + Send + Sync + 'static) -> Self {
        let report = Quiet::new(report);
        let report = move |read: &LongRead<'_>| (*report)(read);
        self.report = Some(crate::primitive::unsized_arc!(report));
        self
    }

    /// Returns what each reactor needs to make its replica.
    pub(crate) fn plans(self, reactors: usize) -> Result<(Vec<Plan>, Arc<Shared>), BuildError> {
        for (at, kind) in self.kinds.iter().enumerate() {
            if kind.owner >= reactors {
                return Err(BuildError::MissingOwner {
                    resource: kind.name,
                    owner: kind.owner,
                });
            }
            if self.kinds[..at].iter().any(|other| other.id == kind.id) {
                return Err(BuildError::OwnedTwice(kind.name));
            }
        }
        let shared = Arc::new(Shared {
            wakers: Arc::new(Wakers::new(reactors)),
            limit: self.long,
            report: self.report,
            long_reads: (0..reactors).map(|_| Counter::new()).collect(),
        });
        let hasher = DefaultHashBuilder::default();
        let mut plans: Vec<Plan> = (0..reactors)
            .map(|reactor| Plan {
                reactor,
                kinds: self.kinds.clone(),
                hasher: hasher.clone(),
                followers: Vec::new(),
                writer: None,
                retired_max: self.retired_max,
                shared: Arc::clone(&shared),
            })
            .collect();
        for owner in 0..reactors {
            if self.kinds.iter().any(|kind| kind.owner == owner) {
                let (writer, followers) = Ledger::of(owner, reactors);
                for (plan, follower) in plans.iter_mut().zip(followers) {
                    plan.followers.push(follower);
                }
                plans[owner].writer = Some(writer);
            }
        }
        Ok((plans, shared))
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.kinds.iter().map(|kind| (kind.name, kind.owner));
        f.debug_struct("Resources")
            .field("types", &types.collect::<Vec<_>>())
            .field("retired_max", &self.retired_max)
            .field("long_read", &self.long)
            .finish_non_exhaustive()
    }
}

/// What a reactor needs to make its replica, on its thread.
pub(crate) struct Plan {
    reactor: usize,
    kinds: Vec<Kind>,
    hasher: DefaultHashBuilder,
    followers: Vec<Follower<Log>>,
    writer: Option<Writer<Log>>,
    retired_max: usize,
    shared: Arc<Shared>,
}

impl Plan {
    pub(crate) fn make(self, clock: SharedClock) -> Replica {
        let typed = |kind: &Kind| (kind.table)(kind, &self.hasher);
        let types = self.kinds.iter().map(typed).collect();
        let owned = self.writer.map(|writer| {
            let estate = |kind: &Kind| (kind.owner == self.reactor).then(|| (kind.estate)());
            let estates = self.kinds.iter().map(estate).collect();
            let wakers = Arc::clone(&self.shared.wakers);
            Owned::new(writer, estates, self.retired_max, wakers)
        });
        let reader = Reader::new(self.followers);
        Replica::new(self.reactor, self.shared, clock, types, reader, owned)
    }
}
