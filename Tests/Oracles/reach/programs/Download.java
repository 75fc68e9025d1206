// Download CLIENT URL FILE: downloads with HttpClient (client), or with URL's own connection (url).
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;

class Download {
  public static void main(String[] arguments) throws Exception {
    byte[] body;
    if (arguments[0].equals("client")) {
      var request = HttpRequest.newBuilder(URI.create(arguments[1])).build();
      body = HttpClient.newHttpClient().send(request, BodyHandlers.ofByteArray()).body();
    } else {
      try (var stream = new URL(arguments[1]).openStream()) {
        body = stream.readAllBytes();
      }
    }
    Files.write(Path.of(arguments[2]), body);
  }
}
