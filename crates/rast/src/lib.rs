//! RAST: re-exports of every crate of the tower.
#![no_std]

#[cfg(feature = "alloc")]
#[doc(inline)]
pub use rast_alloc as alloc;
#[cfg(feature = "msgpass")]
#[doc(inline)]
pub use rast_msgpass as msgpass;
#[doc(inline)]
pub use rast_primitive as primitive;
#[cfg(feature = "queue")]
#[doc(inline)]
pub use rast_queue as queue;
#[cfg(feature = "sharder")]
#[doc(inline)]
pub use rast_sharder as sharder;
#[cfg(feature = "timers")]
#[doc(inline)]
pub use rast_timers as timers;
