import ConnectivityClient
import GRPCNIOTransportHTTP2Posix

/// A certificate for `localhost`, and its key: made for these tests, valid for a hundred years, and
/// trusted only by them.
enum Certificate {
  static let client = Self.client(parsing: 1)

  /// Trusts the certificate, and parses it so many times.
  static func client(
    parsing count: Int
  ) -> HTTP2ClientTransport.Posix.TransportSecurity {
    .tls {
      let certificate = TLSConfig.CertificateSource.bytes(
        Array(Self.certificate.utf8), format: .pem)
      $0.trustRoots = .certificates(Array(repeating: certificate, count: count))
      $0.serverCertificateVerification = .noHostnameVerification
    }
  }

  static let server = HTTP2ServerTransport.Posix.TransportSecurity.tls(
    certificateChain: [.bytes(Array(Self.certificate.utf8), format: .pem)],
    privateKey: .bytes(Array(Self.key.utf8), format: .pem))

  private static let certificate = """
    -----BEGIN CERTIFICATE-----
    MIIBmzCCAUGgAwIBAgIUAoaTmGEwhaF+A4NT2Yn1Kcf828MwCgYIKoZIzj0EAwIw
    FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTExMTE0NFoYDzIxMjYxMDI4
    MTExMTQ0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
    PQMBBwNCAASvJSl0+PW3uq8bJTCo2xT/+Huv7AAFrH2AP4V2yQI7hpy264FiQl29
    hC9joBToKt8auXedIcX2JVrY5gmIvquEo28wbTAdBgNVHQ4EFgQUjoCVW/xtF6rF
    ktOUx4gMaz0eEbUwHwYDVR0jBBgwFoAUjoCVW/xtF6rFktOUx4gMaz0eEbUwDwYD
    VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
    zj0EAwIDSAAwRQIhALg6CS73nsKIubi9Tb3649bhRg/zwgSuuS+b85tWqngGAiAm
    9/Sr+hnjsOlEmu2LrnStxupCt1NRQ/GPckmrPTCDmw==
    -----END CERTIFICATE-----
    """

  private static let key = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgai3PY8ji0p6WjM7r
    9ySvog5p4Gp2E5/3yWvejevL2WihRANCAASvJSl0+PW3uq8bJTCo2xT/+Huv7AAF
    rH2AP4V2yQI7hpy264FiQl29hC9joBToKt8auXedIcX2JVrY5gmIvquE
    -----END PRIVATE KEY-----
    """
}
