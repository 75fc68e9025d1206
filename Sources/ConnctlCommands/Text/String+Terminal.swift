import ConnectivityJSON

extension String {
  /// The text without what a terminal would obey.
  var printable: String {
    guard self.unicodeScalars.contains(where: \.isUnprintable) else { return self }
    var printable = String.UnicodeScalarView()
    for scalar in self.unicodeScalars { printable.append(scalar.isUnprintable ? "?" : scalar) }
    return String(printable)
  }
}
