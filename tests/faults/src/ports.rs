//! Ports of loopback that stay ours for as long as a test runs.

use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// A free port. The socket is bound but does not listen, so the system gives the port to nobody
/// who asks for any, while a server that names it (and sets `SO_REUSEADDR`, as all of ours do)
/// may listen there, end, and listen again.
#[derive(Debug)]
pub struct Port {
    held: TcpSocket,
}

impl Port {
    /// Any free one.
    pub fn reserve() -> Self {
        let held = reusable();
        held.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        Self { held }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.held.local_addr().expect("it is bound")
    }

    /// Listens on it in this process.
    pub fn listen(&self) -> TcpListener {
        let socket = reusable();
        socket.bind(self.address()).expect("it is reserved");
        socket.listen(64).expect("nobody else listens")
    }
}

fn reusable() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("set");
    socket
}

#[tokio::test]
async fn a_reserved_port_refuses_until_somebody_listens_and_again_after() {
    let port = Port::reserve();
    for _ in 0..2 {
        assert!(tokio::net::TcpStream::connect(port.address()).await.is_err());
        let listener = port.listen();
        tokio::net::TcpStream::connect(port.address()).await.expect("somebody listens");
        drop(listener);
    }
}
