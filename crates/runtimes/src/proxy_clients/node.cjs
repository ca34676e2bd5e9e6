'use strict';
// Sends the connections of http, https and fetch through the proxy that the environment names, in versions of Node.js
// that do not do so themselves.
if (process.env.HTTPS_PROXY && !process.allowedNodeEnvironmentFlags.has('--use-env-proxy')) {
  const http = require('http');
  const https = require('https');
  const net = require('net');
  const tls = require('tls');
  const proxy = new URL(process.env.HTTPS_PROXY);
  const direct = new Set((process.env.NO_PROXY || '').split(',').filter(Boolean));
  const plain = (host) => String(host || 'localhost').replace(/^\[|\]$/g, '');

  const tunnel = (host, port, done) => {
    const target = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    const socket = net.connect(Number(proxy.port), proxy.hostname);
    let head = '';
    const finish = (error) => {
      // Not 'data', which would leave the socket flowing.
      socket.removeListener('readable', read);
      socket.removeListener('error', finish);
      socket.removeListener('end', ended);
      if (error) {
        socket.destroy();
        done(error);
      } else {
        done(null, socket);
      }
    };
    const ended = () => finish(new Error(`the proxy closed the connection to ${target}`));
    const read = () => {
      for (let bytes; (bytes = socket.read()) !== null; ) head += bytes.toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      const rest = head.slice(end + 4);
      if (/^HTTP\/1\.[01] 200 /.test(head)) {
        if (rest) socket.unshift(Buffer.from(rest, 'latin1'));
        finish();
      } else {
        finish(new Error(`the proxy refused ${target}: ${rest.trim() || head.split('\r\n')[0]}`));
      }
    };
    socket.on('readable', read).on('error', finish).on('end', ended);
    socket.on('connect', () => socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`));
  };

  const throughProxy = (agent, port, secure) => {
    const original = agent.prototype.createConnection;
    agent.prototype.createConnection = function createConnection(options, callback) {
      const host = plain(options.host || options.hostname);
      if (options.socketPath || direct.has(host) || typeof callback !== 'function') {
        return original.apply(this, arguments);
      }
      tunnel(host, options.port || port, (error, socket) => {
        if (error) return callback(error);
        const servername = options.servername || (net.isIP(host) ? '' : host);
        callback(null, secure ? tls.connect({ ...options, path: undefined, socket, servername }) : socket);
      });
    };
  };
  throughProxy(http.Agent, 80, false);
  throughProxy(https.Agent, 443, true);

  const dispatcher = Symbol.for('undici.globalDispatcher.1');
  const connect = (options, callback) => {
    const host = plain(options.hostname);
    const secure = options.protocol === 'https:';
    const port = options.port || (secure ? 443 : 80);
    const opened = (error, socket) => {
      if (error) return callback(error);
      if (!secure) return callback(null, socket);
      const servername = options.servername || (net.isIP(host) ? '' : host);
      const encrypted = tls.connect({ socket, servername, ALPNProtocols: ['http/1.1'] });
      encrypted.once('secureConnect', () => callback(null, encrypted)).once('error', callback);
    };
    if (!direct.has(host)) return tunnel(host, port, opened);
    const socket = net.connect(Number(port), host, () => opened(null, socket));
    socket.once('error', callback);
  };
  const original = globalThis.fetch;
  if (original) {
    let isSet = false;
    globalThis.fetch = function fetch(...request) {
      if (!isSet) {
        isSet = true;
        // Loads the implementation, which creates the dispatcher.
        void globalThis.Headers;
        const current = globalThis[dispatcher];
        if (current) globalThis[dispatcher] = new current.constructor({ connect });
      }
      return original.apply(this, request);
    };
  }
}
