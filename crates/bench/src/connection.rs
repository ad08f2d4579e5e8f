//! One keep-alive connection: as little client as possible, since it shares the machine with what it measures.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    /// With every request.
    headers: HeaderMap,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_owned(), headers: HeaderMap::new() })
    }

    /// The same connection, on which every request is this tenant's.
    pub(crate) fn of_tenant(mut self, tenant: &str) -> Result<Self> {
        self.headers.insert("x-tenant-id", HeaderValue::from_str(tenant)?);
        Ok(self)
    }

    /// The same connection, on which every request has this key.
    pub(crate) fn with_key(mut self, key: &str) -> Result<Self> {
        self.headers.insert("x-api-key", HeaderValue::from_str(key)?);
        Ok(self)
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes)> {
        let (status, _, body) = self.send_with(method, path, HeaderMap::new(), body).await?;
        Ok((status, body))
    }

    pub(crate) async fn send_with(
        &mut self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes)> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.host.as_str())
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        request.headers_mut().extend(self.headers.clone());
        request.headers_mut().extend(headers);
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let (parts, body) = answer.into_parts();
        Ok((parts.status, parts.headers, body.collect().await?.to_bytes()))
    }

    /// Sends JSON and expects success.
    pub(crate) async fn call(&mut self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let (status, answer) = self.send(method.clone(), path, Bytes::from(body.to_string())).await?;
        if !status.is_success() {
            bail!("{method} {path} answered {status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(if answer.is_empty() { Value::Null } else { serde_json::from_slice(&answer)? })
    }
}
