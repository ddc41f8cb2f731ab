//! Great offsets and sizes.

use rast_reactor::io::OpenOptions;
use rast_reactor::spawn_local;

use super::{builder, data, on_both, tcp_pair};

#[test]
fn files_are_read_beyond_four_gibibytes() {
    on_both(builder, || async {
        let name = format!("rast-reactor-large-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().create_new().open(&path).await.unwrap();
        let at = (5 << 30) + 1;
        file.write_all_at(data(100_000, 1), at).await.0.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), at + 100_000);
        let mut back = Vec::new();
        while back.len() < 100_000 {
            let (read, bytes) = file
                .read_at(Vec::with_capacity(7000), at + back.len() as u64)
                .await;
            assert!(read.unwrap() > 0);
            back.extend(bytes);
        }
        assert!(back == data(100_000, 1));
        // A hole has zeros.
        let (read, bytes) = file.read_at(Vec::with_capacity(1 << 20), 1 << 32).await;
        assert_eq!(read.unwrap(), bytes.len());
        assert!(!bytes.is_empty() && bytes.iter().all(|&byte| byte == 0));
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn sixty_four_mebibytes_in_one_write() {
    on_both(builder, || async {
        const LEN: usize = 64 << 20;
        let (a, b) = tcp_pair().await;
        let writer = spawn_local(async move {
            let (written, buffer) = a.write_all(vec![7; LEN]).await;
            written.unwrap();
            buffer.len()
        });
        let mut len = 0;
        let mut buffer = Vec::with_capacity(1 << 20);
        loop {
            let (read, bytes) = b.read(buffer).await;
            if read.unwrap() == 0 {
                break;
            }
            assert!(bytes.iter().all(|&byte| byte == 7));
            len += bytes.len();
            buffer = bytes;
        }
        assert_eq!((len, writer.await.unwrap()), (LEN, LEN));
    });
}
