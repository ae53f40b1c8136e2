package berth.metrics;

/**
 * All metrics at one moment, as text.
 *
 * @param contentType for the HTTP header
 */
public record Scrape(String contentType, byte[] body) {}
