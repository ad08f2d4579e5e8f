//! The ceiling of HTTP: a handler that does nothing, in a process of its own as the server is.

use std::io::Write as _;

use anyhow::Result;
use axum::Router;
use axum::routing::post;

/// Serves until it is killed; tells its address on the first line.
pub(crate) async fn serve() -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "ready on http://{}", listener.local_addr()?)?;
    let router = Router::new().route("/", post(async || r#"{"ok":true}"#));
    Ok(axum::serve(listener, router).await?)
}
