//! The states of a TCP connection, by the kernel's names (net/tcp_states.h).

/// Data can be sent and received.
pub const TCP_ESTABLISHED: u8 = 1;
/// Our SYN was sent.
pub const TCP_SYN_SENT: u8 = 2;
/// The peer's SYN was received.
pub const TCP_SYN_RECV: u8 = 3;
/// This end has closed, and its FIN is not acknowledged.
pub const TCP_FIN_WAIT1: u8 = 4;
/// This end has closed, and its FIN is acknowledged.
pub const TCP_FIN_WAIT2: u8 = 5;
/// Both ends have closed, and late segments are awaited.
pub const TCP_TIME_WAIT: u8 = 6;
/// The peer has closed, this end has not.
pub const TCP_CLOSE_WAIT: u8 = 8;
/// The peer closed first, and our FIN is not acknowledged.
pub const TCP_LAST_ACK: u8 = 9;
/// Both ends closed at once, and our FIN is not acknowledged.
pub const TCP_CLOSING: u8 = 11;

/// Whether the handshake is complete (RFC 9293, section 3.3.2: the synchronized states).
pub(crate) fn is_synchronized(state: u8) -> bool {
    matches!(
        state,
        TCP_ESTABLISHED
            | TCP_FIN_WAIT1
            | TCP_FIN_WAIT2
            | TCP_TIME_WAIT
            | TCP_CLOSE_WAIT
            | TCP_LAST_ACK
            | TCP_CLOSING
    )
}
