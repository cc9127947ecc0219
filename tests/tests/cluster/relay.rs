//! A TCP relay: the only way from one agent to one coordinator, so that a test can cut it.

use quorate_faults::ports::Port;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrives.
    Open,
    /// Connections are reset, new ones refused.
    Refused,
    /// Nothing is refused and nothing arrives, until the way is open again.
    Silent,
}

/// A relay to one address. Ends with this value.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    orders: mpsc::Sender<(Way, oneshot::Sender<()>)>,
    task: JoinHandle<()>,
}

impl Relay {
    /// An open one, at a port of its own.
    pub fn to(target: SocketAddr) -> Self {
        let port = Port::reserve();
        let address = port.address();
        let (orders, received) = mpsc::channel(1);
        let task = tokio::spawn(serve(port.listen(), port, target, received));
        Self { address, orders, task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns once it is so.
    pub async fn set(&self, way: Way) {
        let (done, is_done) = oneshot::channel();
        self.orders.send((way, done)).await.expect("the relay runs");
        is_done.await.expect("the relay runs");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, port: Port, target: SocketAddr, mut orders: mpsc::Receiver<(Way, oneshot::Sender<()>)>) {
    let way = watch::Sender::new(Way::Open);
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some((next, done)) = order else { return };
                way.send_replace(next);
                if next == Way::Refused {
                    listener = None;
                    connections.shutdown().await;
                } else if listener.is_none() {
                    listener = Some(port.listen());
                }
                let _ = done.send(());
            }
            client = accept(listener.as_ref()) => {
                connections.spawn(relay(client, target, way.subscribe()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    match listener {
        Some(listener) => listener.accept().await.expect("it listens").0,
        None => std::future::pending().await,
    }
}

/// Relays one connection until either end closes it.
async fn relay(client: TcpStream, target: SocketAddr, way: watch::Receiver<Way>) -> io::Result<()> {
    let server = TcpStream::connect(target).await?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
        // whoever is cut off hears of it at once
        end.set_zero_linger()?;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = pass_on(from_client, to_server, way.clone()) => ended,
        ended = pass_on(from_server, to_client, way) => ended,
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut way: watch::Receiver<Way>) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        if way.wait_for(|way| *way == Way::Open).await.is_err() {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}

#[tokio::test]
async fn a_relay_resets_refuses_keeps_silent_and_heals() {
    let target = Port::reserve();
    let listener = target.listen();
    let relay = Relay::to(target.address());
    let mut client = TcpStream::connect(relay.address()).await.expect("open");
    let (mut server, _) = listener.accept().await.expect("relayed");
    client.write_all(b"a").await.expect("sent");
    assert_eq!(server.read_u8().await.expect("arrives"), b'a');

    relay.set(Way::Refused).await;
    assert!(client.read_u8().await.is_err(), "reset");
    assert!(TcpStream::connect(relay.address()).await.is_err(), "refused");

    relay.set(Way::Silent).await;
    let mut client = TcpStream::connect(relay.address()).await.expect("silent");
    client.write_all(b"b").await.expect("sent");
    let (mut server, _) = listener.accept().await.expect("relayed");
    let arrives = tokio::time::timeout(Duration::from_millis(50), server.peek(&mut [0])).await;
    assert!(arrives.is_err(), "{arrives:?}");
    relay.set(Way::Open).await;
    assert_eq!(server.read_u8().await.expect("arrives once open"), b'b');
}
