//! Reactors that spin: they serve all that the others do, and do not sleep.
#![cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]

use std::io::{Read, Write};
use std::time::Duration;

use crate::support::io::{build, echo_chunks};
use crate::support::{LONG, Live, Value, builder, on, own, put, update};
use rast_reactor::executor::sleep;
use rast_reactor::io::{Backend, TcpListener};
use rast_reactor::registry::read;
use rast_reactor::{Lane, Policy, Reactors, background_task, reactor_task, spawn_local};

fn spinning(number: usize, backend: Backend) -> Option<Reactors> {
    let resources = own(rast_reactor::registry::Resources::new());
    build(builder(number).spin().resources(resources), backend)
}

#[test]
fn they_serve_what_others_do() {
    for backend in [Backend::Uring, Backend::Readiness] {
        let Some(reactors) = spinning(2, backend) else {
            continue;
        };
        let live = Live::default();
        on(&reactors, 0, move || async move {
            // Timers, calls, tasks of the pool, and commits.
            sleep(Duration::from_millis(1)).await;
            Lane::new(Duration::from_millis(1)).sleep().await;
            assert_eq!(reactor_task(1, || async { 6 }).await.unwrap(), 6);
            let slow = background_task(Policy::Low, || 7);
            assert_eq!(
                slow.unwrap_or_else(|_| panic!("it is idle")).await.unwrap(),
                7
            );
            let id = put(1, live.value(1)).await;
            update(id, 2).commit().unwrap().await;
            let number = move || async move { read().get(id).map(Value::number) };
            assert_eq!(reactor_task(1, number).await.unwrap(), Some(2));
        });
        let address = on(&reactors, 0, || async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let accepts = spawn_local(async move {
                echo_chunks(listener.accept().await.unwrap()).await;
            });
            accepts.detach();
            address
        });
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        for n in 0..100 {
            client.write_all(&[n; 64]).unwrap();
            let mut back = [0; 64];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, [n; 64], "{backend:?}");
        }
        drop(client);
        assert!(reactors.stop(LONG).is_clean(), "{backend:?}");
    }
}

/// How often the calling thread went to sleep.
#[cfg(target_os = "linux")]
fn sleeps() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is writable and of the right type.
    let got = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(got, 0);
    // SAFETY: zeroed, and written by the call.
    unsafe { usage.assume_init() }.ru_nvcsw
}

#[cfg(target_os = "linux")]
#[test]
fn they_wait_for_a_timer_without_sleeping() {
    for backend in [Backend::Uring, Backend::Readiness] {
        let Some(reactors) = spinning(1, backend) else {
            continue;
        };
        on(&reactors, 0, || async {
            // Another thread may hold a lock of this one now and then, so not each time. A reactor
            // that sleeps does so each time, and this has no end.
            loop {
                let before = sleeps();
                sleep(Duration::from_micros(100)).await;
                if sleeps() == before {
                    break;
                }
            }
        });
        // A stop needs no wake-up.
        assert!(reactors.stop(LONG).is_clean());
    }
}
