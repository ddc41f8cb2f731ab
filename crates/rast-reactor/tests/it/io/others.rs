//! Sockets of the Unix domain, files, and what std made.

use std::io::{ErrorKind, Write};
use std::pin::pin;

use rast_reactor::executor::yield_now;
use rast_reactor::io::{Faults, OpenOptions, TcpListener};
#[cfg(unix)]
use rast_reactor::io::{UnixListener, UnixStream};

use super::{builder, data, on_both, poll_once};

#[cfg(unix)]
#[test]
fn sockets_of_the_unix_domain() {
    let path = |n: usize| {
        let name = format!("rast-reactor-{}-{n}", std::process::id());
        std::env::temp_dir().join(name)
    };
    on_both(builder, move || async move {
        let path = path(1);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).await.unwrap();
        let server = listener.incoming().next().await.unwrap();
        client.write_all(data(100, 1)).await.0.unwrap();
        let (read, bytes) = server.read_exact(vec![0; 100]).await;
        read.unwrap();
        assert_eq!(bytes, data(100, 1));
        drop(client);
        assert!(server.chunk().await.unwrap().is_none());
        let (a, b) = UnixStream::pair().unwrap();
        a.write_all("pair").await.0.unwrap();
        assert_eq!(b.chunk().await.unwrap().as_deref(), Some(&b"pair"[..]));
        std::fs::remove_file(&path).unwrap();
        let gone = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_connection_waits_for_room_in_the_queue_of_its_listener() {
    use socket2::{Domain, SockAddr, Socket, Type};
    on_both(builder, || async {
        let name = format!("rast-reactor-queue-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        // A queue of one.
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(0).unwrap();
        let listener = std::os::fd::OwnedFd::from(socket).into();
        let listener = UnixListener::from_std(listener).unwrap();
        let _first = UnixStream::connect(&path).await.unwrap();
        let mut second = pin!(UnixStream::connect(&path));
        for _ in 0..300 {
            assert!(poll_once(second.as_mut()).await.is_none());
            yield_now().await;
        }
        let _accepted = listener.accept().await.unwrap();
        let second = second.await.unwrap();
        second.write_all("second").await.0.unwrap();
        let (read, bytes) = listener
            .accept()
            .await
            .unwrap()
            .read_exact(vec![0; 6])
            .await;
        read.unwrap();
        assert_eq!(bytes, b"second");
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn files_hold_what_was_written() {
    let set_up = || builder().faults(Faults::seeded(5).short(300).interrupted(300));
    on_both(set_up, || async {
        let name = format!("rast-reactor-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let missing = OpenOptions::new().open(&path).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let file = OpenOptions::new().create_new().open(&path).await.unwrap();
        let again = OpenOptions::new()
            .create_new()
            .open(&path)
            .await
            .unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        // Against a model: writes at places, then reads at others.
        let mut model = vec![0_u8; 70_000];
        for n in 0..40_usize {
            let (at, part) = (n * 1711 % 60_000, data(n * 199 % 9000 + 1, n));
            model[at..at + part.len()].copy_from_slice(&part);
            file.write_all_at(part, at as u64).await.0.unwrap();
        }
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
        let len = std::fs::metadata(&path).unwrap().len() as usize;
        model.truncate(len);
        let mut back = Vec::new();
        loop {
            let (read, bytes) = file
                .read_at(Vec::with_capacity(5000), back.len() as u64)
                .await;
            if read.unwrap() == 0 {
                break;
            }
            back.extend(bytes);
        }
        assert!(back == model);
        // Begun and given up: the kernel or the pool has the buffer until it is done.
        for n in 0..50 {
            let _ = poll_once(file.read_at(Vec::with_capacity(60_000), n)).await;
        }
        for at in [u64::MAX, 1 << 63] {
            let refused = file.read_at(Vec::with_capacity(1), at).await.0.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            let (refused, bytes) = file.write_all_at(vec![1], at).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(bytes, [1]);
        }
        let read_only = OpenOptions::new().open(&path).await.unwrap();
        assert!(read_only.write_at(vec![1], 0).await.0.is_err());
        let appended = OpenOptions::new().append().open(&path).await.unwrap();
        appended.write_all_at(b"end", 0).await.0.unwrap();
        assert!(std::fs::read(&path).unwrap().ends_with(b"end"));
        let _ = OpenOptions::new().truncate().open(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn what_std_made_is_taken_over() {
    on_both(builder, || async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let mut peer = std::net::TcpStream::connect(address).unwrap();
        let stream = listener.accept().await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), peer.local_addr().unwrap());
        stream.set_nodelay(true).unwrap();
        peer.write_all(b"from std").unwrap();
        let (read, bytes) = stream.read_exact(vec![0; 8]).await;
        read.unwrap();
        assert_eq!(bytes, b"from std");
        let (read, buffer) = stream.read(Vec::new()).await;
        assert_eq!((read.unwrap(), buffer.len()), (0, 0));
    });
}
