import ArgumentParser

/// The format of a line, for status bars.
struct FormatOption: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Print this text instead, with fields in braces: '{category} {interface}'.",
      valueName: "text"),
    transform: Template.reading)
  var format: Template?

  static let discussion = """
    Fields of --format: \(Template.Field.allCases.map { "{\($0.rawValue)}" }.joined(separator: " ")). \
    {field:json} is a JSON value; {{ and }} are braces. A field without a value is empty, and so are \
    {interface}, {metered} and {constrained} without a network or cost.
    """
}
