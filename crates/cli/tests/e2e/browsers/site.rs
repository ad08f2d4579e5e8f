//! A web site with the hostile page. Requests for other paths are passed on to the attacked server, as if the name of the
//! site led there by now.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const PAGE: &str = include_str!("attack.html");

/// Dropping it closes the site.
pub(super) struct Site {
    port: u16,
    _serving: JoinSet<()>,
}

impl Site {
    pub(super) async fn start(attacked: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let attacked = attacked.trim_start_matches("http://").to_owned();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let attacked = attacked.clone();
                // A browser opens connections that it then does not use.
                connections.spawn(async move { serve(connection, &attacked).await.ok() });
            }
        });
        Self { port, _serving: serving }
    }

    /// The address of the page under this name of the site.
    pub(super) fn page(&self, name: &str) -> String {
        format!("http://{name}:{}/", self.port)
    }
}

async fn serve(connection: TcpStream, attacked: &str) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut head = String::new();
    while connection.read_line(&mut head).await? > 2 {}
    if head.starts_with("GET / ") {
        let length = PAGE.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        return connection.write_all((answer + PAGE).as_bytes()).await;
    }
    let mut server = TcpStream::connect(attacked).await?;
    server.write_all(head.as_bytes()).await?;
    copy_bidirectional(&mut connection, &mut server).await.map(drop)
}
