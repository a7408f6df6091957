//! An upload over QUIC (quinn): UDP to the network, with loss recovery and CUBIC in the program.
//! Both ends are driven by one thread; each has its socket in its host's namespace.

use super::{QuicFlow, Sample};
use crate::LabError;
use crate::net::Topology;
use crate::run::work::Job;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ServerConfig, StreamId, Transmit, TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_kernel::clock;

/// Each terminal's server has its own port.
const FIRST_PORT: u16 = 6000;
/// The application protocol.
const PROTOCOL: &[u8] = b"yuzuri-lab";
/// Flow control limit and send buffer, bytes: no limit on the laboratory's paths.
const WINDOW_BYTES: u32 = 16 << 20;
/// Sampling interval of the sender.
const SAMPLE: Duration = Duration::from_millis(20);
/// How often the stop flag is checked.
const STOP_CHECK: Duration = Duration::from_millis(20);
const MAX_DATAGRAM: usize = 2048;
/// One end: its socket and its state machines.
struct End {
    socket: UdpSocket,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    buffer: Vec<u8>,
}

/// Uploads until the flag is set, or until the connection is lost.
///
/// # Errors
/// If a socket or the keys cannot be created, or if the connection is lost.
pub(super) fn upload(
    topology: &Topology,
    job: &Job,
    stop: &AtomicBool,
    flow: &mut QuicFlow,
) -> Result<(), LabError> {
    let doing = "an upload over QUIC";
    let network = |error: io::Error| LabError::network(doing)(error);
    let terminal = &topology.terminals[job.terminal];
    let server_at = SocketAddr::new(topology.server.v4.into(), FIRST_PORT + job.terminal as u16);
    let bind = |host: &crate::net::Host, at: SocketAddr| {
        host.namespace.inside(move || {
            let socket = UdpSocket::bind(at)?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>(socket)
        })
    };
    let near = bind(terminal, SocketAddr::new(terminal.v4.into(), 0))?.map_err(network)?;
    let far = bind(&topology.server, server_at)?.map_err(network)?;
    let failed =
        |why: &dyn std::fmt::Display| LabError::Run(format!("{doing} of terminal {}: {why}", job.terminal));
    let (client, server) = configurations().map_err(|why| failed(&why))?;
    // A seed of the terminal: connection ids and the like are the same in each run.
    let seed = Some([job.terminal as u8; 32]);
    let end = |socket, server| End {
        socket,
        endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), server, true, seed),
        connection: None,
        buffer: Vec::with_capacity(MAX_DATAGRAM),
    };
    let (mut sender, mut receiver) = (end(near, None), end(far, Some(Arc::new(server))));
    let begun = sender.endpoint.connect(Instant::now(), client, server_at, "server");
    sender.connection = Some(begun.map_err(|why| failed(&why))?);
    let before = flow.samples.last().map_or(0, |sample| sample.received_bytes);
    let (mut stream, mut received, mut sample_at) = (None, before, Instant::now());
    let mut streams = Vec::new();
    let lost_before = flow.samples.last().map_or(0, |sample| sample.lost_packets);
    while !stop.load(Ordering::Relaxed) {
        for end in [&mut sender, &mut receiver] {
            end.receive().map_err(network)?;
        }
        sender.run(|connection| write(connection, &mut stream)).map_err(|lost| failed(&lost))?;
        receiver
            .run(|connection| received += read(connection, &mut streams))
            .map_err(|lost| failed(&lost))?;
        for end in [&mut sender, &mut receiver] {
            end.exchange_datagrams().map_err(network)?;
        }
        let now = Instant::now();
        if now >= sample_at
            && let Some((_, connection)) = &sender.connection
        {
            let path = connection.stats().path;
            let srtt_us = path.rtt.as_micros() as u32;
            // Before the first measurement it is an assumption.
            if stream.is_some() {
                let sample = Sample {
                    mono_ns: clock::mono_ns(),
                    received_bytes: received,
                    srtt_us,
                    window_bytes: path.cwnd,
                    lost_packets: lost_before + path.lost_packets,
                };
                flow.samples.push(sample);
                flow.min_rtt_us = Some(flow.min_rtt_us.map_or(srtt_us, |least| least.min(srtt_us)));
            }
            sample_at = now + SAMPLE;
        }
        let due = [&mut sender, &mut receiver].map(End::due).into_iter().flatten().min();
        let wait = due.map_or(STOP_CHECK, |due| due.saturating_duration_since(now)).min(STOP_CHECK);
        let mut fds = [&sender, &receiver].map(|end| PollFd::new(end.socket.as_fd(), PollFlags::POLLIN));
        // A signal may end the wait early, which does no harm.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None);
    }
    Ok(())
}

/// Writes as much as the connection accepts.
fn write(connection: &mut Connection, stream: &mut Option<StreamId>) {
    if connection.is_handshaking() {
        return;
    }
    let Some(id) = stream.or_else(|| connection.streams().open(Dir::Uni)) else { return };
    *stream = Some(id);
    let data = [7; 16 << 10];
    while connection.send_stream(id).write(&data).is_ok_and(|count| count > 0) {}
}

/// Reads all received data; returns the number of bytes.
fn read(connection: &mut Connection, streams: &mut Vec<StreamId>) -> u64 {
    while let Some(id) = connection.streams().accept(Dir::Uni) {
        streams.push(id);
    }
    let mut bytes = 0;
    for id in streams {
        if let Ok(mut chunks) = connection.recv_stream(*id).read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                bytes += chunk.bytes.len() as u64;
            }
            // The next transmission has the new limits of flow control.
            let _ = chunks.finalize();
        }
    }
    bytes
}

impl End {
    /// Processes all received datagrams.
    fn receive(&mut self) -> io::Result<()> {
        let mut datagram = [0; MAX_DATAGRAM];
        loop {
            let (length, from) = match self.socket.recv_from(&mut datagram) {
                Ok(got) => got,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(());
                }
                // The other end does not exist yet, or has ended.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(e) => return Err(e),
            };
            let now = Instant::now();
            self.buffer.clear();
            let data = datagram[..length].into();
            match self.endpoint.handle(now, from, None, None, data, &mut self.buffer) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some((_, connection)) = self.connection.as_mut().filter(|(own, _)| *own == handle)
                    {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.buffer.clear();
                    match self.endpoint.accept(incoming, now, &mut self.buffer, None) {
                        Ok(accepted) => self.connection = Some(accepted),
                        Err(error) => {
                            if let Some(transmit) = error.response {
                                send(&self.socket, &transmit, &self.buffer)?;
                            }
                        }
                    }
                }
                Some(DatagramEvent::Response(transmit)) => send(&self.socket, &transmit, &self.buffer)?,
                None => {}
            }
        }
    }

    /// Runs due timers and the application.
    fn run(&mut self, application: impl FnOnce(&mut Connection)) -> Result<(), ConnectionError> {
        let Some((handle, connection)) = &mut self.connection else { return Ok(()) };
        let now = Instant::now();
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        application(connection);
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                return Err(reason);
            }
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        Ok(())
    }

    /// Sends all that may be sent now.
    fn exchange_datagrams(&mut self) -> io::Result<()> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        loop {
            self.buffer.clear();
            let Some(transmit) = connection.poll_transmit(Instant::now(), 1, &mut self.buffer) else {
                return Ok(());
            };
            send(&self.socket, &transmit, &self.buffer)?;
        }
    }

    fn due(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }
}

fn send(socket: &UdpSocket, transmit: &Transmit, buffer: &[u8]) -> io::Result<()> {
    match socket.send_to(&buffer[..transmit.size], transmit.destination) {
        // A datagram that the host's own queue rejects is lost, as in any program.
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => Ok(()),
        sent => sent.map(drop),
    }
}

/// Client and server for one connection, with a new raw public key (RFC 7250).
fn configurations() -> Result<(ClientConfig, ServerConfig), Box<dyn std::error::Error>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = ring::signature::Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new())
        .map_err(|_| "no random numbers")?;
    let key = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pair.as_ref()))?;
    let public = key.public_key().ok_or("a key without its public half")?.into_owned();
    let certified = rustls::sign::CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], key);
    let versions = &[&rustls::version::TLS13];
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    let verifier = PinnedKey { public, provider: provider.clone() };
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(WINDOW_BYTES.into());
    let transport = Arc::new(transport);
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client)?));
    client.transport_config(transport.clone());
    let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server)?));
    server.transport_config(transport);
    Ok((client, server))
}

/// Accepts only one public key.
#[derive(Debug)]
struct PinnedKey {
    public: SubjectPublicKeyInfoDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == self.public.as_ref() {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::General("another server's key".into()))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
