//! Actions that an owner runs after all transactions that are open now.

use std_alloc::boxed::Box;
use std_alloc::rc::Rc;

use rast_executor::queue::Full;

use super::owned::{Committed, Owned};
use super::read::OUTSIDE;
use super::replica::{Replica, with_current};
use super::table::Log;
use crate::epoch::Garbage;

/// The replica, and the resources that it owns, if any.
#[track_caller]
fn owner() -> (Rc<Replica>, Option<Rc<Owned>>) {
    let replica = with_current(|replica| replica.cloned()).expect(OUTSIDE);
    let owned = replica.owned.clone();
    (replica, owned)
}

/// Calls `action` on this reactor when every read transaction that is open now, on any reactor, has
/// ended. Use it to free memory and other things to which resources refer. A transaction that is
/// opened later also delays `action`, if its reactor has not yet applied all commits made before
/// this call.
///
/// `action` runs between polls, and its panics are contained. If this reactor stops first, `action`
/// runs when the last reactor that may read the resources has stopped, on the thread of that
/// reactor.
///
/// # Errors
///
/// [`Full`] with the action, as for [`Changes::commit`](crate::registry::Changes::commit).
///
/// # Panics
///
/// Outside of a reactor; if the reactor owns no type of resources.
///
/// ```
/// use rast_reactor::registry::{Resource, Resources, defer};
/// use rast_reactor::{Reactors, executor::block_on};
/// use std::sync::mpsc;
///
/// struct Index;
/// impl Resource for Index {
///     type Key = u64;
/// }
///
/// let resources = Resources::new().own::<Index>(0);
/// let reactors = Reactors::builder().number(2).resources(resources).build().unwrap();
/// let (sender, receiver) = mpsc::channel();
/// let task = reactors.reactor(0).unwrap().spawn(|| async move {
///     defer(move || sender.send("freed").unwrap()).unwrap_or_else(|_| panic!("there is room"));
/// });
/// block_on(task).unwrap();
/// assert_eq!(receiver.recv(), Ok("freed"));
/// ```
#[track_caller]
pub fn defer<F: FnOnce() + Send + 'static>(action: F) -> Result<(), Full<F>> {
    let (replica, owned) = owner();
    let owned = owned.expect("this reactor owns no resources, so no transaction sees its past");
    if owned.is_full() {
        owned.collect(usize::MAX);
        if owned.is_full() {
            return Err(Full(action));
        }
    }
    // The action belongs to an empty commit, which transactions that are open now do not see.
    let bytes = size_of::<F>();
    let garbage = Garbage::Action(Box::new(action));
    let number = owned.push(Log::new(), 0);
    owned.retired.borrow_mut().push(number, bytes, garbage);
    replica.follow();
    Ok(())
}

/// Waits until this reactor may commit again after
/// [`NotCommitted::Full`](crate::registry::NotCommitted::Full).
///
/// ```
/// use rast_reactor::registry::room;
/// use rast_reactor::{Reactors, executor::block_on};
///
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// block_on(reactors.reactor(0).unwrap().spawn(|| async { room().await })).unwrap();
/// ```
///
/// # Panics
///
/// Outside of a reactor, when it is polled.
pub async fn room() {
    Committed::room(owner().1).await;
}

/// Returns how many bytes of replaced resources and commits this reactor has not destroyed yet;
/// zero if it owns no type.
///
/// # Panics
///
/// Outside of a reactor.
#[track_caller]
#[must_use]
pub fn retired() -> usize {
    let (_, owned) = owner();
    owned.map_or(0, |owned| owned.retired_bytes())
}
