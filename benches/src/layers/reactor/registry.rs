//! Reads by key and by stable id on a reactor that does not own the resources, against maps and
//! vectors behind a swapped pointer. Also the commit of a leaf, against a copy of the path to it.

use rast::primitive::Random;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use rast::executor::{block_on, yield_now};
use rast::reactor::registry::{Children, Id, NoKey, Resource, Resources, change, read};
use rast::reactor::{Pool, Reactor, Reactors};

use super::LAYER;
use crate::harness::Scenario;
use crate::usage::thread_time;
use crate::workers::{Sample, alone};

/// Resources that are read.
const MANY: u64 = 10_000;
/// Reads per turn, if a transaction or a guard is kept for a turn.
const TURN: usize = 32;
/// Children of each node.
const CHILDREN: usize = 1000;

/// What is read: 64 bytes.
struct Ad([u64; 8]);

impl Resource for Ad {
    type Key = u64;
}

/// A node of 1 KiB. It has the id of the list of its children.
#[derive(Clone)]
struct Node {
    payload: [u8; 1024],
    children: Option<Id<Children<Node>>>,
}

impl Resource for Node {
    type Key = NoKey;
}

/// The same, but parents have pointers to their children.
#[derive(Clone)]
struct Tree {
    payload: [u8; 1024],
    children: Vec<Arc<Tree>>,
}

/// The keys in the order in which they are read.
fn order() -> Vec<u64> {
    let mut random = Random::new(0);
    (0..1 << 14).map(|_| random.draw() % MANY).collect()
}

/// Two reactors, the first of which owns some types.
struct Rig(Reactors);

impl Rig {
    fn new() -> Self {
        let resources = Resources::new()
            .own::<Ad>(0)
            .own::<Node>(0)
            .own::<Children<Node>>(0);
        let pool = Pool::builder().threads([0, 0, 1]);
        let builder = Reactors::builder().number(2).pool(pool);
        let reactors = builder.resources(resources).build();
        Self(reactors.expect("two threads"))
    }

    fn reactor(&self, index: usize) -> Reactor {
        self.0.reactor(index).expect("one of the two")
    }

    fn on<F, R>(&self, index: usize, begin: F) -> R::Output
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        block_on(self.reactor(index).spawn(begin)).expect("the task returns")
    }

    /// Commits the resources; returns the ids in the order of `order`.
    fn fill(&self) -> Vec<Id<Ad>> {
        self.on(0, || async {
            let mut changes = change();
            let add = |key| changes.insert(key, Ad([key; 8])).expect("it is new");
            let ids: Vec<_> = (0..MANY).map(add).collect();
            changes.commit().expect("there is room").await;
            order().into_iter().map(|key| ids[key as usize]).collect()
        })
    }
}

/// Times `ops` reads on a reactor that does not own the resources.
fn ours<K: Copy + Send + Sync + 'static>(
    keys: impl FnOnce(&Rig) -> Vec<K>,
    reads: fn(&[K]) -> u64,
) -> impl FnMut(u64) -> Sample {
    let rig = Rig::new();
    let keys: Arc<[K]> = keys(&rig).into();
    move |ops| {
        let keys = Arc::clone(&keys);
        rig.on(1, move || async move { over(&keys, ops, reads) })
    }
}

/// Times `reads` over turns of keys until there were `ops`.
fn over<K>(keys: &[K], ops: u64, reads: impl Fn(&[K]) -> u64) -> Sample {
    let turns = ops.div_ceil(TURN as u64);
    alone(|| {
        let mut sum = 0;
        for turn in keys.chunks_exact(TURN).cycle().take(turns as usize) {
            sum += reads(turn);
        }
        black_box(sum);
        turns * TURN as u64
    })
}

fn keys(rig: &Rig) -> Vec<u64> {
    rig.fill();
    order()
}

fn by_key() -> Scenario {
    let scenario = Scenario::new(LAYER, "registry: read by key", 2_000_000, 3200)
        .ours(
            "rast, a transaction per read",
            ours(keys, |turn| {
                let one = |key: &u64| read().find::<Ad, _>(key).expect("it is there").1.0[0];
                turn.iter().map(one).sum()
            }),
        )
        .ours(
            "rast, a transaction per 32 reads",
            ours(keys, |turn| {
                let read = read();
                let ads = read.of::<Ad>();
                let one = |key: &u64| ads.find(key).expect("it is there").1.0[0];
                turn.iter().map(one).sum()
            }),
        );
    let map = RwLock::new(map());
    let keys = order();
    let scenario = scenario.rival("std RwLock of a map", move |ops| {
        over(&keys, ops, |turn| {
            let one = |key: &u64| map.read().expect("no poison")[key].0[0];
            turn.iter().map(one).sum()
        })
    });
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = rivals::by_key(scenario);
    scenario
}

/// The map type of all contenders, with our hash function.
fn map() -> HashMap<u64, Arc<Ad>, DefaultHashBuilder> {
    (0..MANY).map(|key| (key, Arc::new(Ad([key; 8])))).collect()
}

fn by_id() -> Scenario {
    let scenario = Scenario::new(LAYER, "registry: read by stable id", 5_000_000, 3200)
        .ours(
            "rast, a transaction per 32 reads",
            ours(Rig::fill, |turn| {
                let read = read();
                let ads = read.of::<Ad>();
                let one = |&id: &Id<Ad>| ads.get(id).expect("it is there").0[0];
                turn.iter().map(one).sum()
            }),
        )
        .ours(
            "rast, a transaction per read",
            ours(Rig::fill, |turn| {
                let one = |&id: &Id<Ad>| read().get(id).expect("it is there").0[0];
                turn.iter().map(one).sum()
            }),
        );
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = rivals::by_id(scenario);
    scenario
}

fn node(children: Option<Id<Children<Node>>>) -> Node {
    Node {
        payload: [1; 1024],
        children,
    }
}

/// Updates a leaf by its id and commits; the processor time of the owner.
fn commit_by_id() -> impl FnMut(u64) -> Sample {
    let rig = Rig::new();
    let leaves: Arc<[Id<Node>]> = rig.on(0, || async {
        let mut changes = change();
        let mut below = None;
        let mut leaves = Vec::new();
        for _ in 0..3 {
            let mut level: Vec<_> = (1..CHILDREN)
                .map(|_| changes.add(node(None)).expect("owned here"))
                .collect();
            level.push(changes.add(node(below)).expect("owned here"));
            let list: Children<Node> = level.iter().copied().collect();
            below = Some(changes.add(list).expect("owned here"));
            if leaves.is_empty() {
                leaves = level;
            }
        }
        let root = changes.add(node(below)).expect("owned here");
        changes.commit().expect("there is room").await;
        assert!(read().get(root).is_some_and(|root| root.children == below));
        leaves.into()
    });
    move |ops| {
        let leaves = Arc::clone(&leaves);
        rig.on(0, move || async move {
            let before = thread_time();
            for number in 0..ops {
                let mut changes = change();
                let leaf = leaves[number as usize * 7 % leaves.len()];
                let changed = changes.update(leaf, |leaf| leaf.payload[0] ^= 1);
                changed.expect("it is there");
                drop(changes.commit().expect("there is room"));
                if number % 16 == 15 {
                    // The replaced values are destroyed at the end of the turn.
                    yield_now().await;
                }
            }
            Sample::new(ops, spent(before))
        })
    }
}

fn spent(before: Duration) -> Duration {
    thread_time().saturating_sub(before)
}

/// Copies a leaf and all nodes above it.
fn commit_by_path() -> impl FnMut(u64) -> Sample {
    let leaf = || Tree {
        payload: [1; 1024],
        children: Vec::new(),
    };
    let mut below = Vec::new();
    for _ in 0..3 {
        let mut level: Vec<_> = (1..CHILDREN).map(|_| Arc::new(leaf())).collect();
        let mut last = leaf();
        last.children = below;
        level.push(Arc::new(last));
        below = level;
    }
    let mut root = leaf();
    root.children = below;
    let root = RwLock::new(Arc::new(root));
    move |ops| {
        let before = thread_time();
        for number in 0..ops {
            let old = Arc::clone(&root.read().expect("no poison"));
            let new = copied(&old, 3, number as usize * 7 % CHILDREN);
            let old = [
                old,
                std::mem::replace(&mut *root.write().expect("no poison"), new),
            ];
            drop(old);
        }
        Sample::new(ops, spent(before))
    }
}

/// A copy of the node, in which the leaf of that number is changed.
fn copied(node: &Tree, depth: usize, leaf: usize) -> Arc<Tree> {
    let mut copy = node.clone();
    match depth {
        0 => copy.payload[0] ^= 1,
        1 => copy.children[leaf] = copied(&copy.children[leaf], 0, leaf),
        _ => {
            let last = CHILDREN - 1;
            copy.children[last] = copied(&copy.children[last], depth - 1, leaf);
        }
    }
    Arc::new(copy)
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        by_key(),
        by_id(),
        Scenario::new(LAYER, "registry: commit of a leaf", 5_000, 64)
            .ours("rast, by a stable id", commit_by_id())
            .rival("copies of its path", commit_by_path()),
    ]
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use std::rc::Rc;

    use super::{Ad, Arc, MANY, Scenario, TURN, map, order, over};
    use arc_swap::{ArcSwap, Cache};
    use hashbrown::DefaultHashBuilder;

    pub(super) fn by_key(scenario: Scenario) -> Scenario {
        let swapped = Rc::new(ArcSwap::from_pointee(map()));
        let (loaded, cached) = (Rc::clone(&swapped), swapped);
        let papaya = Rc::new(papaya::HashMap::with_hasher(DefaultHashBuilder::default()));
        for (key, ad) in map() {
            papaya.pin().insert(key, ad);
        }
        let (each, pinned) = (Rc::clone(&papaya), papaya);
        let keys = order();
        let [a, b, c, d] = [(); 4].map(|()| keys.clone());
        scenario
            .rival("arc-swap, load of a map", move |ops| {
                over(&a, ops, |turn| {
                    let one = |key: &u64| loaded.load()[key].0[0];
                    turn.iter().map(one).sum()
                })
            })
            .rival("papaya, get", move |ops| {
                over(&b, ops, |turn| {
                    let one = |key: &u64| each.pin().get(key).expect("it is there").0[0];
                    turn.iter().map(one).sum()
                })
            })
            .rival("arc-swap, Cache of a map", move |ops| {
                let mut cache = Cache::new(&*cached);
                let turns = ops.div_ceil(TURN as u64);
                crate::workers::alone(|| {
                    let mut sum = 0;
                    for turn in c.chunks_exact(TURN).cycle().take(turns as usize) {
                        for key in turn {
                            sum += cache.load()[key].0[0];
                        }
                    }
                    std::hint::black_box(sum);
                    turns * TURN as u64
                })
            })
            .rival("papaya, pinned per 32 reads", move |ops| {
                over(&d, ops, |turn| {
                    let pinned = pinned.pin();
                    let one = |key: &u64| pinned.get(key).expect("it is there").0[0];
                    turn.iter().map(one).sum()
                })
            })
    }

    pub(super) fn by_id(scenario: Scenario) -> Scenario {
        let one = |key| ArcSwap::from_pointee(Ad([key; 8]));
        let cells: Vec<ArcSwap<Ad>> = (0..MANY).map(one).collect();
        let one = |key| Arc::new(Ad([key; 8]));
        let all = ArcSwap::from_pointee((0..MANY).map(one).collect::<Vec<_>>());
        let keys = order();
        let [a, b] = [(); 2].map(|()| keys.clone());
        scenario
            .rival("arc-swap, load of the resource", move |ops| {
                over(&a, ops, |turn| {
                    let one = |&key: &u64| cells[key as usize].load().0[0];
                    turn.iter().map(one).sum()
                })
            })
            .rival("arc-swap, load of a vector", move |ops| {
                over(&b, ops, |turn| {
                    let one = |&key: &u64| all.load()[key as usize].0[0];
                    turn.iter().map(one).sum()
                })
            })
    }
}
