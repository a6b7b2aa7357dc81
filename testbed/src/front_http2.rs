//! HTTP/2 on one side, HTTP/1.1 on the other: each stream becomes a request on a connection of its
//! own, whose end is the answer's.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Headers that tell about a connection have no meaning on the other side (RFC 9113 §8.2.2).
const OF_THE_CONNECTION: [&str; 4] = ["connection", "keep-alive", "transfer-encoding", "host"];

/// Serves one connection to its end.
///
/// # Errors
/// When the client breaks it, or doesn't speak HTTP/2.
pub(crate) async fn serve(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: SocketAddr,
) -> io::Result<()> {
    let connection = h2::server::handshake(client).await;
    let mut connection = connection.map_err(io::Error::other)?;
    while let Some(came) = connection.accept().await {
        let (request, respond) = came.map_err(io::Error::other)?;
        drop(tokio::spawn(async move {
            // A stream that can't be answered is reset when it is dropped.
            let _ = answer(request, respond, server).await;
        }));
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    server: SocketAddr,
) -> io::Result<()> {
    let (head, body) = request.into_parts();
    let body = read(body).await?;
    let target = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = head
        .uri
        .authority()
        .map_or("", |authority| authority.as_str());
    let mut text = format!(
        "{} {target} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n",
        head.method
    );
    for (name, value) in &head.headers {
        if !OF_THE_CONNECTION.contains(&name.as_str()) {
            let value = value.to_str().map_err(io::Error::other)?;
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str("\r\n");
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.write_all(&body).await?;
    let mut came = Vec::new();
    stream.read_to_end(&mut came).await?;
    let (response, body) = translate(&came)?;
    let is_over = body.is_empty();
    let sent = respond.send_response(response, is_over);
    let mut sending = sent.map_err(io::Error::other)?;
    if is_over {
        return Ok(());
    }
    // It goes out as the client takes it, with nobody waiting for that here.
    sending.send_data(body, true).map_err(io::Error::other)
}

async fn read(mut body: RecvStream) -> io::Result<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(io::Error::other)?;
        whole.extend_from_slice(&part);
        let flow = body.flow_control();
        flow.release_capacity(part.len())
            .map_err(io::Error::other)?;
    }
    Ok(whole)
}

/// An answer of HTTP/1.1 that ended with its connection.
fn translate(came: &[u8]) -> io::Result<(Response<()>, Bytes)> {
    let not_http = || io::Error::new(io::ErrorKind::InvalidData, "the server's answer is none");
    let end = came.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = came.split_at(end.ok_or_else(not_http)? + 4);
    let head = std::str::from_utf8(head).map_err(io::Error::other)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let mut response = Response::builder().status(status.ok_or_else(not_http)?);
    let mut is_chunked = false;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name = name.to_ascii_lowercase();
        is_chunked |= name == "transfer-encoding";
        if !OF_THE_CONNECTION.contains(&name.as_str()) {
            response = response.header(name, value);
        }
    }
    let body = if is_chunked {
        unchunked(body).ok_or_else(not_http)?
    } else {
        body.to_vec()
    };
    let response = response.body(()).map_err(io::Error::other)?;
    Ok((response, Bytes::from(body)))
}

/// The body of chunks; `None` if they are none.
fn unchunked(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&chunks[..end]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        chunks = chunks.get(end + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunks.get(..size)?);
        chunks = chunks.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_translated_with_their_headers_and_bodies() -> io::Result<()> {
        let plain = "HTTP/1.1 302 Elsewhere\r\nLocation: /ok\r\nConnection: close\r\n\r\nthere";
        let (response, body) = translate(plain.as_bytes())?;
        assert_eq!(response.status(), 302);
        assert_eq!(response.headers().len(), 1);
        assert_eq!(body, "there");
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(translate(chunked.as_bytes())?.1, "abcd");
        for none in [
            "",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        ] {
            assert!(translate(none.as_bytes()).is_err(), "{none:?}");
        }
        Ok(())
    }
}
