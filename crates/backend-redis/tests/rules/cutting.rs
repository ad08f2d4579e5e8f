//! A way to Redis that loses one reply: the request arrives, and the connection is cut before its answer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Default)]
struct Scissors {
    /// The reply to the next request with this text in it is lost.
    mark: Mutex<Option<String>>,
    cuts: AtomicU32,
}

pub(crate) struct CuttingProxy {
    port: u16,
    scissors: Arc<Scissors>,
    task: tokio::task::JoinHandle<()>,
}

impl CuttingProxy {
    pub(crate) async fn before(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scissors = Arc::new(Scissors::default());
        let shared = scissors.clone();
        let task = tokio::spawn(async move {
            let mut links = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                links.spawn(forward(client, server_port, shared.clone()));
            }
        });
        Self { port, scissors, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Loses the reply to the next request with `mark` in it.
    pub(crate) fn lose_reply_to(&self, mark: &str) {
        *self.scissors.mark.lock().unwrap() = Some(mark.to_owned());
    }

    /// How many replies were lost.
    pub(crate) fn cuts(&self) -> u32 {
        self.scissors.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries bytes both ways until one side ends, or a reply is to be lost.
async fn forward(mut client: TcpStream, server_port: u16, scissors: Arc<Scissors>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut is_marked = false;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                is_marked |= scissors.is_marked(&asked[..count]);
                if server.write_all(&asked[..count]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                // A server that does not know the script has done nothing: the request comes again, in full.
                if is_marked && !answered.starts_with(b"-NOSCRIPT") {
                    scissors.mark.lock().unwrap().take();
                    scissors.cuts.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                is_marked = false;
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Scissors {
    fn is_marked(&self, bytes: &[u8]) -> bool {
        let mark = self.mark.lock().unwrap();
        mark.as_ref().is_some_and(|mark| bytes.windows(mark.len()).any(|window| window == mark.as_bytes()))
    }
}
