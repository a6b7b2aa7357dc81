//! A server whose answers a test writes, byte by byte where that matters, and which keeps what it
//! was asked, and on which connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What answers a request: writes all of an answer.
type Answer = dyn Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync;

/// A running server; dropped, it ends.
pub(crate) struct ClientServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Asked>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Counted from 0.
    pub(crate) connection: usize,
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A whole answer with these lines in its head.
pub(crate) fn answer(status: u16, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Status\r\n{lines}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

impl ClientServer {
    /// Answers each request by what `with` gives for it.
    pub(crate) fn start(with: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::writing(move |asked, stream| stream.write_all(&with(asked)))
    }

    /// Lets `write` write each answer.
    pub(crate) fn writing(
        write: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::<Mutex<Vec<Asked>>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let (write, kept, over) = (Arc::new(write), Arc::clone(&seen), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let (write, kept) = (Arc::clone(&write), Arc::clone(&kept));
                let stream = stream.expect("a connection");
                // It ends with the client's side, and an error of it is the client's to tell.
                std::thread::spawn(move || serve(index, stream, &kept, &*write));
            }
        });
        Self {
            address,
            seen,
            is_over,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.seen.lock().expect("no test panicked").clone()
    }

    /// Methods and targets of all requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.seen();
        let line = |asked: &Asked| format!("{} {}", asked.method, asked.target);
        seen.iter().map(line).collect()
    }
}

impl Drop for ClientServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Refused only if it has ended already.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server didn't panic");
        }
    }
}

fn serve(
    connection: usize,
    stream: TcpStream,
    kept: &Mutex<Vec<Asked>>,
    write: &Answer,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(asked) = read(connection, &mut reader)? {
        kept.lock().expect("no test panicked").push(asked.clone());
        // Another one may come, whatever the client has said.
        write(&asked, &mut writer)?;
    }
    Ok(())
}

fn read(connection: usize, reader: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next().unwrap_or_default(); // no request: a test will fail
    let target = words.next().unwrap_or_default(); // as above
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Asked {
        connection,
        method,
        target,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }))
}
