//! A small HTTP server for tests: one file, ranges, and the faults of real servers on demand. It counts what it is asked for.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the server does with the next requests, one entry each; after them it serves.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Answers with a status.
    Status(u16),
    /// Closes the connection without an answer.
    Drop,
    /// Sends so many bytes of the body, then closes.
    Truncate(usize),
    /// Serves as it should.
    None,
}

/// How a body says where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Length,
    Chunks,
    /// Not at all: the connection is closed.
    Close,
}

pub struct Server {
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    file: Mutex<(Vec<u8>, String)>,
    faults: Mutex<Vec<Fault>>,
    ranges: AtomicBool,
    end: Mutex<End>,
    encoding: Mutex<Option<&'static str>>,
    requests: AtomicUsize,
    bytes: AtomicU64,
    heads: Mutex<Vec<String>>,
    redirect: Mutex<Option<String>>,
    stop: AtomicBool,
}

impl Server {
    pub fn start(file: Vec<u8>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            file: Mutex::new((file, "\"one\"".into())),
            faults: Mutex::default(),
            ranges: AtomicBool::new(true),
            end: Mutex::new(End::Length),
            encoding: Mutex::default(),
            requests: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            heads: Mutex::default(),
            redirect: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if server.stop.load(Ordering::SeqCst) {
                    break;
                }
                let server = Arc::clone(&server);
                std::thread::spawn(move || server.serve(connection.unwrap()));
            }
        });
        Server { address, shared }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }

    pub fn replace(&self, file: Vec<u8>) {
        *self.shared.file.lock().unwrap() = (file, "\"two\"".into());
    }

    pub fn fail(&self, faults: &[Fault]) {
        *self.shared.faults.lock().unwrap() = faults.to_vec();
    }

    pub fn without_ranges(&self) {
        self.shared.ranges.store(false, Ordering::SeqCst);
    }

    pub fn end_with(&self, end: End) {
        *self.shared.end.lock().unwrap() = end;
    }

    /// Names a content encoding in every answer.
    pub fn encode_as(&self, encoding: &'static str) {
        *self.shared.encoding.lock().unwrap() = Some(encoding);
    }

    pub fn redirect_to(&self, target: &str) {
        *self.shared.redirect.lock().unwrap() = Some(target.to_string());
    }

    /// Requests and bytes of bodies since the last call.
    pub fn counted(&self) -> (usize, u64) {
        (self.shared.requests.swap(0, Ordering::SeqCst), self.shared.bytes.swap(0, Ordering::SeqCst))
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                match reader.read_line(&mut head) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
            self.requests.fetch_add(1, Ordering::SeqCst);
            self.heads.lock().unwrap().push(head.clone());
            if !self.answer(&stream, &head) {
                return;
            }
        }
    }

    /// Answers one request; whether the connection stays open.
    fn answer(&self, mut stream: &TcpStream, head: &str) -> bool {
        let fault = {
            let mut faults = self.faults.lock().unwrap();
            if faults.is_empty() { Fault::None } else { faults.remove(0) }
        };
        let reply = |mut stream: &TcpStream, text: String| stream.write_all(text.as_bytes()).is_ok();
        match fault {
            Fault::Drop => return false,
            Fault::Status(status) => {
                return reply(
                    stream,
                    format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n"),
                );
            }
            _ => {}
        }
        if let Some(target) = &*self.redirect.lock().unwrap() {
            return reply(
                stream,
                format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n"),
            );
        }
        let (file, tag) = self.file.lock().unwrap().clone();
        let wanted = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_string));
        let (first, body) = match wanted.filter(|_| self.ranges.load(Ordering::SeqCst)) {
            Some(range) => {
                let (start, end) = range.trim().split_once('-').unwrap();
                let start: usize = start.parse().unwrap();
                if start >= file.len() {
                    let text = format!(
                        "HTTP/1.1 416 X\r\ncontent-range: bytes */{}\r\ncontent-length: 0\r\n\r\n",
                        file.len()
                    );
                    return reply(stream, text);
                }
                let end = end.parse::<usize>().unwrap().min(file.len() - 1);
                let described = format!("content-range: bytes {start}-{end}/{}\r\n", file.len());
                (format!("HTTP/1.1 206 Partial Content\r\n{described}"), &file[start..=end])
            }
            None => ("HTTP/1.1 200 OK\r\n".to_string(), &file[..]),
        };
        let encoding = *self.encoding.lock().unwrap();
        let encoding = encoding.map_or(String::new(), |name| format!("content-encoding: {name}\r\n"));
        let end = *self.end.lock().unwrap();
        let framing = match end {
            End::Length => format!("content-length: {}\r\n", body.len()),
            End::Chunks => "transfer-encoding: chunked\r\n".to_string(),
            End::Close => "connection: close\r\n".to_string(),
        };
        if !reply(stream, format!("{first}etag: {tag}\r\n{encoding}{framing}\r\n")) {
            return false;
        }
        let sent = match fault {
            Fault::Truncate(count) => &body[..count.min(body.len())],
            _ => body,
        };
        self.bytes.fetch_add(sent.len() as u64, Ordering::SeqCst);
        if end == End::Chunks {
            let all = sent.chunks(100_000).all(|chunk| {
                reply(stream, format!("{:x}\r\n", chunk.len()))
                    && stream.write_all(chunk).is_ok()
                    && reply(stream, "\r\n".into())
            });
            return all && sent.len() == body.len() && reply(stream, "0\r\n\r\n".into());
        }
        stream.write_all(sent).is_ok() && sent.len() == body.len() && end == End::Length
    }
}
