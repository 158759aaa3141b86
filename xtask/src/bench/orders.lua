-- Requests of `cargo xtask bench market`: every user buys every voucher once, in a fixed order. For
-- the bare server there are as many vouchers as it takes.
--
-- Arguments: `market` or `bare`; a file with one token per line; one with the vouchers; the
-- position at which to continue.

local tokens, vouchers, market, at = {}, {}, true, 0

function init(args)
  market = args[1] == "market"
  for line in io.lines(args[2]) do tokens[#tokens + 1] = line end
  for line in io.lines(args[3]) do vouchers[#vouchers + 1] = line end
  at = tonumber(args[4])
end

function request()
  local user = at % #tokens + 1
  local voucher = math.floor(at / #tokens) + 1
  at = at + 1
  if market then
    return wrk.format("POST", "/voucher-order/seckill/" .. vouchers[voucher], { authorization = tokens[user] })
  end
  return wrk.format("POST", "/order/" .. user .. "/" .. voucher)
end
