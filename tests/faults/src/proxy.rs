//! A TCP proxy: the only way to one process, in the weather that its caller has.

use crate::callers::Roster;
use crate::places::Place;
use crate::ports::Port;
use crate::weather::{Climate, Way, Weather};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// Read at once.
const PIECE: usize = 16 * 1024;

/// Pieces under way in one direction; beyond that nothing is read.
const UNDER_WAY: usize = 256;

/// A trickle comes in portions, one in this time.
const PORTION: Duration = Duration::from_millis(20);

/// A proxy to one process. Ends with this value.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    task: JoinHandle<()>,
}

/// Where a proxy leads, and what it goes by.
#[derive(Clone, Debug)]
pub struct Course {
    /// Which process.
    pub called: Place,
    /// Where it listens.
    pub target: SocketAddr,
    /// Who calls.
    pub roster: Roster,
    /// What becomes of it.
    pub climate: Climate,
}

impl Proxy {
    /// At a port of its own.
    pub fn along(course: Course) -> Self {
        let port = Port::reserve();
        let task = tokio::spawn(serve(port.listen(), port.address(), course));
        Self { port, task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, here: SocketAddr, course: Course) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, from)) = accepted {
                    connections.spawn(connection(client, from, here, course.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Relays one connection until both ends have closed it, or the weather resets it.
async fn connection(client: TcpStream, from: SocketAddr, here: SocketAddr, course: Course) -> io::Result<()> {
    // whoever is cut off hears of it at once
    client.set_zero_linger()?;
    // one whose caller has ended already must not slip through
    let Some(caller) = course.roster.caller(from, here) else { return Ok(()) };
    let mut weather = course.climate.between(caller, course.called);
    let storms = weather.borrow().storms;
    if weather.borrow().cut {
        return Ok(());
    }
    let relayed = relay(client, course.target, weather.clone());
    tokio::select! {
        ended = relayed => ended,
        _ = weather.wait_for(|now| now.cut || now.storms != storms) => Ok(()),
    }
}

async fn relay(client: TcpStream, target: SocketAddr, weather: watch::Receiver<Weather>) -> io::Result<()> {
    let server = TcpStream::connect(target).await?;
    server.set_zero_linger()?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = pass_on(from_client, to_server, weather.clone(), |weather| weather.there);
    let back = pass_on(from_server, to_client, weather, |weather| weather.back);
    tokio::try_join!(there, back).map(drop)
}

/// What was read, and when it arrives.
struct Piece {
    bytes: Vec<u8>,
    due: Instant,
}

async fn pass_on(from: OwnedReadHalf, to: OwnedWriteHalf, weather: watch::Receiver<Weather>, way: fn(&Weather) -> Way) -> io::Result<()> {
    let (send, pieces) = mpsc::channel(UNDER_WAY);
    let departures = depart(from, send, weather.clone(), way);
    tokio::try_join!(departures, arrive(to, pieces, weather, way)).map(drop)
}

async fn depart(
    mut from: OwnedReadHalf,
    send: mpsc::Sender<Piece>,
    weather: watch::Receiver<Weather>,
    way: fn(&Weather) -> Way,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer).await?;
        let latency = way(&weather.borrow()).latency;
        let piece = Piece { bytes: buffer[..read].to_vec(), due: Instant::now() + latency };
        // an empty piece is the end, and takes as long as the others
        if send.send(piece).await.is_err() || read == 0 {
            return Ok(());
        }
    }
}

async fn arrive(
    mut to: OwnedWriteHalf,
    mut pieces: mpsc::Receiver<Piece>,
    mut weather: watch::Receiver<Weather>,
    way: fn(&Weather) -> Way,
) -> io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        tokio::time::sleep_until(piece.due).await;
        let mut rest = piece.bytes.as_slice();
        while !rest.is_empty() {
            let now = match weather.wait_for(|now| !way(now).lost).await {
                Ok(now) => way(&now),
                Err(_) => return Ok(()),
            };
            let portion = now.trickle.map_or(rest.len(), |rate| portion(rate).min(rest.len()));
            to.write_all(&rest[..portion]).await?;
            rest = &rest[portion..];
            if now.trickle.is_some() {
                tokio::time::sleep(PORTION).await;
            }
        }
    }
    to.shutdown().await
}

/// Bytes in one portion of a trickle of so many a second.
fn portion(rate: u32) -> usize {
    let bytes = u128::from(rate) * PORTION.as_millis() / 1_000;
    usize::try_from(bytes).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weather::{Kind, Trouble};

    const HERE: Place = Place::Agent("us", 1);
    const THERE: Place = Place::Coordinator(1);

    struct Bench {
        climate: Climate,
        listener: TcpListener,
        proxy: Proxy,
    }

    impl Bench {
        fn set_up() -> Self {
            let roster = Roster::default();
            roster.add(HERE, std::process::id());
            let climate = Climate::fair(Duration::ZERO);
            let port = Port::reserve();
            let course = Course { called: THERE, target: port.address(), roster, climate: climate.clone() };
            Self { climate, listener: port.listen(), proxy: Proxy::along(course) }
        }

        async fn connect(&self) -> (TcpStream, TcpStream) {
            let client = TcpStream::connect(self.proxy.address()).await.expect("connected");
            (client, self.listener.accept().await.expect("relayed").0)
        }

        fn begin(&self, these: Place, those: Place, kind: Kind) -> crate::weather::TroubleId {
            self.climate.begin(Trouble { these: vec![these], those: vec![those], kind })
        }
    }

    #[tokio::test]
    async fn a_direction_is_lost_and_what_was_sent_arrives_late() {
        let bench = Bench::set_up();
        let (mut client, mut server) = bench.connect().await;
        let id = bench.begin(HERE, THERE, Kind::Lost);
        client.write_all(b"a").await.expect("sent");
        server.write_all(b"b").await.expect("sent");
        assert_eq!(client.read_u8().await.expect("the other way is open"), b'b');
        let arrived = tokio::time::timeout(Duration::from_millis(50), server.peek(&mut [0])).await;
        assert!(arrived.is_err(), "{arrived:?}");
        bench.climate.end(id);
        assert_eq!(server.read_u8().await.expect("arrives"), b'a');
    }

    #[tokio::test]
    async fn a_cut_and_a_storm_reset_and_a_cut_stays() {
        let bench = Bench::set_up();
        let (mut client, _server) = bench.connect().await;
        bench.climate.storm(&[HERE], &[THERE]);
        assert!(client.read_u8().await.is_err(), "reset");
        let (mut client, _server) = bench.connect().await;
        let id = bench.begin(THERE, HERE, Kind::Cut);
        assert!(client.read_u8().await.is_err(), "reset");
        let mut client = TcpStream::connect(bench.proxy.address()).await.expect("the proxy listens");
        assert!(client.read_u8().await.is_err(), "reset at once");
        bench.climate.end(id);
        let (mut client, mut server) = bench.connect().await;
        server.write_all(b"c").await.expect("sent");
        assert_eq!(client.read_u8().await.expect("arrives"), b'c');
    }

    #[tokio::test]
    async fn latency_and_trickle_take_their_time_and_lose_nothing() {
        let bench = Bench::set_up();
        let (mut client, mut server) = bench.connect().await;
        bench.begin(HERE, THERE, Kind::Late(Duration::from_millis(60)));
        bench.begin(HERE, THERE, Kind::Trickle(1_000));
        let begun = Instant::now();
        let sent: Vec<u8> = (0..100).collect();
        client.write_all(&sent).await.expect("sent");
        client.shutdown().await.expect("ended");
        let mut arrived = Vec::new();
        server.read_to_end(&mut arrived).await.expect("read");
        assert_eq!(arrived, sent);
        // five portions, the last of which is not waited for by the reader's last byte
        assert!(begun.elapsed() >= Duration::from_millis(60 + 4 * 20), "{:?}", begun.elapsed());
        server.write_all(b"d").await.expect("the other direction is still open");
        assert_eq!(client.read_u8().await.expect("arrives"), b'd');
    }

    #[tokio::test]
    async fn a_caller_that_is_not_known_is_reset() {
        let bench = Bench::set_up();
        let stranger = Roster::default();
        let course =
            Course { called: THERE, target: bench.listener.local_addr().expect("bound"), roster: stranger, climate: bench.climate.clone() };
        let proxy = Proxy::along(course);
        let mut client = TcpStream::connect(proxy.address()).await.expect("the proxy listens");
        assert!(client.read_u8().await.is_err(), "reset");
    }
}
