//! The commands that Redis runs, also inside of scripts.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::LIMIT;

pub(super) struct Monitor(TcpStream);

impl Monitor {
    /// Records commands from now on.
    pub(super) async fn begin(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"MONITOR\r\n").await.unwrap();
        let mut ok = [0; 5];
        stream.read_exact(&mut ok).await.unwrap();
        assert_eq!(&ok, b"+OK\r\n");
        Self(stream)
    }

    /// The commands up to one that contains `mark`.
    pub(super) async fn read_until(self, mark: &str) -> String {
        self.read_until_all(&[mark]).await
    }

    /// The commands up to one that contains every mark.
    pub(super) async fn read_until_all(mut self, marks: &[&str]) -> String {
        let (mut seen, mut searched) = (Vec::new(), 0);
        // Redis never falls silent, because its replicas poll: the limit is for the whole wait.
        let found = tokio::time::timeout(LIMIT, async {
            loop {
                assert!(self.0.read_buf(&mut seen).await.unwrap() > 0, "Redis closed the connection");
                let fresh = String::from_utf8_lossy(&seen[searched..]);
                if fresh.lines().any(|line| marks.iter().all(|mark| line.contains(mark))) {
                    return;
                }
                searched = seen.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            }
        });
        assert!(found.await.is_ok(), "no command with {marks:?} within {LIMIT:?}");
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// The keys that were set up to the command with `mark`, with their values.
    pub(super) async fn writes_until(self, mark: &str) -> Vec<(String, String)> {
        let seen = self.read_until(mark).await;
        let words = |line: &str| -> Vec<String> {
            // Words are quoted and escaped as in JSON, except for bytes that are not text.
            let line = line.split_once("] ").map_or("", |(_, rest)| rest);
            let words = serde_json::Deserializer::from_str(line).into_iter::<String>();
            words.map_while(Result::ok).collect()
        };
        let set = seen.lines().map(words).filter(|words| words.len() > 2);
        let set = set.filter(|words| words[0].eq_ignore_ascii_case("set"));
        set.map(|mut words| (std::mem::take(&mut words[1]), std::mem::take(&mut words[2]))).collect()
    }
}
