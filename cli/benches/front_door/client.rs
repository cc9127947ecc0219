//! A closed loop: each connection asks, waits for the answer, and asks again. On one thread, so that it takes little
//! from who answers, and with no more of HTTP than that takes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Subjects that are asked for, one after the other.
const SUBJECTS: usize = 10_000;

/// Who is asked, and how.
#[derive(Clone, Copy)]
pub struct Load {
    pub address: SocketAddr,
    pub connections: usize,
    /// Questions a second, of all connections; `None`: as fast as they are answered.
    pub pace: Option<f64>,
}

/// What came of it.
pub struct Answers {
    pub count: usize,
    pub per_second: f64,
    /// In microseconds, sorted.
    latencies: Vec<u32>,
}

impl Answers {
    /// In microseconds; the greatest of so many hundredths.
    pub fn percentile(&self, percent: usize) -> f64 {
        let place = (self.latencies.len() * percent / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(place).map_or(0.0, |micros| f64::from(*micros))
    }
}

impl Load {
    /// Asks for this long. Each answer must be an admission.
    pub fn run(self, span: Duration) -> Answers {
        self.drive(move |begun, _| begun.elapsed() < span)
    }

    /// Asks so many questions on each connection.
    pub fn ask(self, questions: usize) -> Answers {
        self.drive(move |_, asked| asked < questions)
    }

    fn drive(self, goes_on: impl Fn(Instant, usize) -> bool + Copy + Send + 'static) -> Answers {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let started = Instant::now();
        let mut latencies = tokio::task::LocalSet::new().block_on(&runtime, async {
            let workers: Vec<_> = (0..self.connections)
                .map(|worker| tokio::task::spawn_local(async move { self.work(worker, goes_on).await.expect("answers") }))
                .collect();
            let mut all = Vec::new();
            for worker in workers {
                all.extend(worker.await.expect("it ends"));
            }
            all
        });
        latencies.sort_unstable();
        Answers { count: latencies.len(), per_second: latencies.len() as f64 / started.elapsed().as_secs_f64(), latencies }
    }

    async fn work(self, worker: usize, goes_on: impl Fn(Instant, usize) -> bool) -> std::io::Result<Vec<u32>> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let requests: Vec<Vec<u8>> = (worker..SUBJECTS).step_by(self.connections).map(request).collect();
        let pause = self.pace.map(|pace| Duration::from_secs_f64(self.connections as f64 / pace));
        let (begun, mut latencies, mut buffer) = (Instant::now(), Vec::new(), Vec::with_capacity(4_096));
        let mut due = begun + pause.unwrap_or_default().mul_f64(worker as f64 / self.connections as f64);
        for request in requests.iter().cycle() {
            if !goes_on(begun, latencies.len()) {
                break;
            }
            let was_due = pause.is_some() && Instant::now() >= due;
            if let Some(pause) = pause {
                tokio::time::sleep_until(due.into()).await;
                due += pause;
            }
            // who was still waiting when the next question was due is late with that one
            let asked = if was_due { due - pause.unwrap_or_default() } else { Instant::now() };
            stream.write_all(request).await?;
            read_answer(&mut stream, &mut buffer).await?;
            latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        Ok(latencies)
    }
}

fn request(subject: usize) -> Vec<u8> {
    let body = format!(r#"{{"attributes":{{"route":"write","tenant":"tenant-{subject}"}}}}"#);
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: limiter\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    (head + &body).into_bytes()
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    buffer.clear();
    while !is_whole(buffer) {
        if stream.read_buf(buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    assert!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(buffer));
    Ok(())
}

/// True once the head and as many bytes as it names are there.
fn is_whole(buffer: &[u8]) -> bool {
    let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head_text = std::str::from_utf8(&buffer[..head]).expect("ASCII");
    let length = head_text.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    buffer.len() >= head + 4 + length.parse::<usize>().expect("a number")
}
